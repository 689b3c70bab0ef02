/* A driver of tensordash_core in C99: no allocation, no library, no operating system. docs/driver.md is its reference.
 *
 * `tensordash.h` has what the driver takes from the configuration: registers, errors and descriptors. The generator
 * writes both, for one configuration: `tensordash_open` refuses a core of another one.
 */
#ifndef TENSORDASH_DRIVER_H
#define TENSORDASH_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensordash.h"

typedef enum {
  TENSORDASH_OK = 0,
  TENSORDASH_BAD_ARGUMENT, /* a null pointer, an address or a size that the core cannot use */
  TENSORDASH_NO_CORE,      /* the identity register belongs to something else */
  TENSORDASH_OTHER_CORE,   /* a core of another configuration: its digest differs */
  TENSORDASH_BUSY,         /* the core runs, and the call needs an idle core */
  TENSORDASH_FULL,         /* the ring has fewer free places than descriptors are submitted */
  TENSORDASH_NOT_READY,    /* no ring since the last reset */
  TENSORDASH_FAILED,       /* a descriptor ended with an error: `tensordash_read_fault` */
  TENSORDASH_TIMEOUT,      /* the time limit has expired */
  TENSORDASH_SILENT        /* the watchdog: memory does not answer */
} tensordash_status;

/* What the platform provides. A null function means the default. */
typedef struct {
  void *context;              /* passed to each function */
  volatile uint32_t *base;    /* the core's registers, for the default of `read` and `write` */
  uint32_t (*read)(void *context, uint32_t offset);                /* default: a load from `base` */
  void (*write)(void *context, uint32_t offset, uint32_t value);   /* default: a store to `base` */
  uint32_t (*now)(void *context);      /* a clock in ticks, modulo 2^32. Default: calls of `now` so far */
  void (*sleep)(void *context);        /* return at an interrupt, or earlier. Default: poll */
  /* Cache maintenance. Default: none, for coherent memory. */
  void (*publish)(void *context, const volatile void *start, size_t bytes); /* show the core the processor's writes */
  void (*acquire)(void *context, const volatile void *start, size_t bytes); /* show the processor the core's writes */
} tensordash_port;

/* A core. All members except `watchdog` belong to the driver. */
typedef struct {
  tensordash_port port;
  volatile uint32_t *ring; /* the processor's address of the descriptors */
  uint32_t places;         /* descriptors in the ring; 0: no ring */
  uint32_t tail;           /* descriptors submitted since the last reset */
  uint32_t calls;          /* calls of the default clock */
  uint32_t watchdog;       /* ticks without progress until TENSORDASH_SILENT; 0: never */
} tensordash_device;

/* Counters of the core, each a member with the register's name. */
typedef struct {
#define TENSORDASH_MEMBER(NAME, name) uint32_t name;
  TENSORDASH_COUNTERS(TENSORDASH_MEMBER)
#undef TENSORDASH_MEMBER
} tensordash_counts;

/* The first error since the last reset. Names are as in docs/core.md. An unknown name is "". */
typedef struct {
  uint32_t code;         /* TENSORDASH_ERROR_CODE_... */
  uint32_t index;        /* number of the descriptor since the last reset */
  const char *error;     /* name of the code */
  const char *operation; /* the descriptor's operation */
  const char *field;     /* the field to check */
  uint32_t bit;          /* error `reserved`: the lowest bit that must not be set, counted from bit 0 of word 0 */
  const volatile uint32_t *descriptor; /* in the ring, or null */
} tensordash_fault;

/* Check identity and digest, and soft-reset the core. */
tensordash_status tensordash_open(tensordash_device *device, const tensordash_port *port, uint32_t limit);

/* Soft-reset, and wait at most `limit` ticks. Ring and counters are lost. Bounds and the buffer's contents remain. */
tensordash_status tensordash_reset(tensordash_device *device, uint32_t limit);

/* Restrict an idle core to the memory from `base` to `limit`: whole pages of 4 KiB. */
tensordash_status tensordash_restrict(tensordash_device *device, uint64_t base, uint64_t limit);

/* Soft-reset, and set the core's ring of `places` descriptors, a power of two up to 32,768. `address` is the core's
 * address of `ring`. Both are multiples of 64. */
tensordash_status tensordash_set_ring(
    tensordash_device *device, uint32_t *ring, uint64_t address, uint32_t places, uint32_t limit);

/* Copy descriptors to the ring's next places, and let the core execute them: all, or none if there is no room. */
tensordash_status tensordash_submit(tensordash_device *device, const uint32_t *descriptors, uint32_t count);

/* Soft-reset, and execute `count` descriptors in place, up to 32,768. */
tensordash_status tensordash_start(
    tensordash_device *device, uint32_t *program, uint64_t address, uint32_t count, uint32_t limit);

/* Wait at most `limit` ticks until all descriptors are done. */
tensordash_status tensordash_wait(tensordash_device *device, uint32_t limit);

/* Acknowledge the interrupt, and return its causes: bits of the register `cause`. For an interrupt handler. */
uint32_t tensordash_acknowledge(tensordash_device *device);

/* Copy all counters, and reset them to 0 if `clear`. */
void tensordash_count(tensordash_device *device, tensordash_counts *counts, bool clear);

/* Describe the first error. TENSORDASH_OK: there is none. */
tensordash_status tensordash_read_fault(tensordash_device *device, tensordash_fault *fault);

/* Call before the core reads the processor's writes (publish), and before the processor reads the core's (acquire). */
void tensordash_publish(tensordash_device *device, const volatile void *start, size_t bytes);
void tensordash_acquire(tensordash_device *device, const volatile void *start, size_t bytes);

#endif
