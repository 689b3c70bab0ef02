/* The driver of tensordash_core in a Linux process, on user-space I/O (UIO). docs/driver.md is its reference. */
#ifndef TENSORDASH_LINUX_H
#define TENSORDASH_LINUX_H

#include "tensordash_driver.h"

/* Devices of a core. */
typedef struct {
  int interrupt;                /* the open UIO device */
  volatile uint32_t *registers; /* its first map */
  uint8_t *memory;              /* mapped memory that the core can use */
  size_t bytes;                 /* size of the memory */
  uint64_t address;             /* the core's address of the memory's first byte */
} tensordash_linux;

/* Open and map `registers`, a UIO device, and `bytes` bytes of `memory`, for example a u-dma-buf device.
 *
 * Returns a null pointer, or the name of the step that failed. Then `errno` has the reason, and nothing stays open. */
const char *tensordash_linux_open(
    tensordash_linux *devices, const char *registers, const char *memory, uint64_t address, size_t bytes);

/* The port of open devices. Ticks are milliseconds. Its `sleep` returns at the interrupt, or after 100 ms. */
tensordash_port tensordash_linux_port(tensordash_linux *devices);

/* The core's address of a byte of the mapped memory. */
uint64_t tensordash_linux_address(const tensordash_linux *devices, const volatile void *byte);

void tensordash_linux_close(tensordash_linux *devices);

#endif
