/* Driver of tensordash_core in C99, without allocation, library or operating system. docs/driver.md is the reference.
 *
 * `tensordash.h` has the registers, errors and descriptors of the configuration. The generator writes both files for
 * one configuration; `tensordash_open` refuses a core with another configuration.
 */
#ifndef TENSORDASH_DRIVER_H
#define TENSORDASH_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensordash.h"

typedef enum {
  TENSORDASH_OK = 0,
  TENSORDASH_BAD_ARGUMENT, /* a null pointer, or an address or a size that the core cannot use */
  TENSORDASH_NO_CORE,      /* the identity register belongs to something else */
  TENSORDASH_OTHER_CORE,   /* the core has another configuration: its digest differs */
  TENSORDASH_BUSY,         /* the core runs, but the call needs an idle core */
  TENSORDASH_FULL,         /* the ring has fewer free places than submitted descriptors */
  TENSORDASH_NOT_READY,    /* no ring has been set since the last reset */
  TENSORDASH_FAILED,       /* a descriptor ended with an error; see `tensordash_read_fault` */
  TENSORDASH_TIMEOUT,      /* the time limit has passed */
  TENSORDASH_SILENT        /* the watchdog has expired: memory does not respond */
} tensordash_status;

/* Functions of the platform. A null function selects the default. */
typedef struct {
  void *context;              /* passed to each function */
  volatile uint32_t *base;    /* the core's registers, for the defaults of `read` and `write` */
  uint32_t (*read)(void *context, uint32_t offset);                /* default: a load from `base` */
  void (*write)(void *context, uint32_t offset, uint32_t value);   /* default: a store to `base` */
  uint32_t (*now)(void *context);      /* a clock in ticks, modulo 2^32. Default: the number of calls so far */
  void (*sleep)(void *context);        /* wait for an interrupt; may return earlier. Default: poll */
  /* Cache maintenance. Default: none, for coherent memory. */
  void (*publish)(void *context, const volatile void *start, size_t bytes); /* make the processor's writes visible */
  void (*acquire)(void *context, const volatile void *start, size_t bytes); /* make the core's writes visible */
} tensordash_port;

/* A core. All members except `watchdog` are private to the driver. */
typedef struct {
  tensordash_port port;
  volatile uint32_t *ring; /* the processor's address of the descriptors */
  uint32_t places;         /* places of the ring, or 0 without a ring */
  uint32_t tail;           /* descriptors submitted since the last reset */
  uint32_t calls;          /* calls of the default clock */
  uint32_t watchdog;       /* ticks without progress after which memory counts as silent; 0 disables the watchdog */
} tensordash_device;

/* Counters of the core; each member has the name of its register. */
typedef struct {
#define TENSORDASH_MEMBER(NAME, name) uint32_t name;
  TENSORDASH_COUNTERS(TENSORDASH_MEMBER)
#undef TENSORDASH_MEMBER
} tensordash_counts;

/* The first error since the last reset. Names are defined in docs/core.md; an unknown name is "". */
typedef struct {
  uint32_t code;         /* TENSORDASH_ERROR_CODE_... */
  uint32_t index;        /* number of the descriptor since the last reset */
  const char *error;     /* name of the code */
  const char *operation; /* operation of the descriptor */
  const char *field;     /* the field that causes the error */
  uint32_t bit;          /* for error `reserved`: the lowest reserved bit that is set, counted from bit 0 of word 0 */
  const volatile uint32_t *descriptor; /* the descriptor in the ring, or null */
} tensordash_fault;

/* Check identity and digest, and issue a soft reset. */
tensordash_status tensordash_open(tensordash_device *device, const tensordash_port *port, uint32_t limit);

/* Issue a soft reset, and wait for at most `limit` ticks. It clears ring and counters, but not bounds and buffer. */
tensordash_status tensordash_reset(tensordash_device *device, uint32_t limit);

/* Restrict an idle core to the memory from `base` to `limit`, on boundaries of 4 KiB pages. */
tensordash_status tensordash_restrict(tensordash_device *device, uint64_t base, uint64_t limit);

/* Issue a soft reset, and set a ring of `places` descriptors, a power of two up to 32,768. `address` is the core's
 * address of `ring`; both are multiples of 64. */
tensordash_status tensordash_set_ring(
    tensordash_device *device, uint32_t *ring, uint64_t address, uint32_t places, uint32_t limit);

/* Copy descriptors to the ring's next places, and let the core execute them. Without room for all, copy none. */
tensordash_status tensordash_submit(tensordash_device *device, const uint32_t *descriptors, uint32_t count);

/* Issue a soft reset, and execute `count` descriptors in place, up to 32,768. */
tensordash_status tensordash_start(
    tensordash_device *device, uint32_t *program, uint64_t address, uint32_t count, uint32_t limit);

/* Wait until all descriptors are done, for at most `limit` ticks. */
tensordash_status tensordash_wait(tensordash_device *device, uint32_t limit);

/* Acknowledge the interrupt, and return its causes, bits of the register `cause`. Interrupt handlers may call this. */
uint32_t tensordash_acknowledge(tensordash_device *device);

/* Read a snapshot of all counters; if `clear`, restart them at 0. */
void tensordash_count(tensordash_device *device, tensordash_counts *counts, bool clear);

/* Describe the first error. Returns TENSORDASH_OK if there is none, else TENSORDASH_FAILED. */
tensordash_status tensordash_read_fault(tensordash_device *device, tensordash_fault *fault);

/* Call `publish` before the core reads the processor's writes, and `acquire` before the processor reads the core's. */
void tensordash_publish(tensordash_device *device, const volatile void *start, size_t bytes);
void tensordash_acquire(tensordash_device *device, const volatile void *start, size_t bytes);

#endif
