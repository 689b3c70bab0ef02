/* Driver of tensordash_core in a Linux process, on user-space I/O (UIO). docs/driver.md is the reference. */
#ifndef TENSORDASH_LINUX_H
#define TENSORDASH_LINUX_H

#include "tensordash_driver.h"

/* Devices of a core. */
typedef struct {
  int interrupt;                /* the opened UIO device */
  volatile uint32_t *registers; /* the device's first map */
  uint8_t *memory;              /* mapped memory that the core can access */
  size_t bytes;                 /* size of the memory */
  uint64_t address;             /* the core's address of the memory's first byte */
} tensordash_linux;

/* Open and map `registers`, a UIO device, and `bytes` bytes of `memory`, such as a u-dma-buf device.
 *
 * Returns a null pointer, or the name of the failed step. Then `errno` has the reason, and nothing stays open. */
const char *tensordash_linux_open(
    tensordash_linux *devices, const char *registers, const char *memory, uint64_t address, size_t bytes);

/* Return the port of opened devices. Ticks are milliseconds. `sleep` waits for the interrupt, for at most 100 ms. */
tensordash_port tensordash_linux_port(tensordash_linux *devices);

/* Return the core's address of a byte of the mapped memory. */
uint64_t tensordash_linux_address(const tensordash_linux *devices, const volatile void *byte);

/* Unmap the memory and the registers, and close the devices. */
void tensordash_linux_close(tensordash_linux *devices);

#endif
