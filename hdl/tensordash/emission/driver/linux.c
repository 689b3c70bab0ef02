/* The driver of tensordash_core on Linux's user-space I/O: see tensordash_linux.h. */
#define _POSIX_C_SOURCE 200809L

#include "tensordash_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define REGISTER_BYTES 4096u
#define MAX_SLEEP_MS 100

/* Order accesses to memory and to registers. A barrier between processors is too weak for that. */
static void order_accesses(void *context, const volatile void *start, size_t bytes) {
  (void)context;
  (void)start;
  (void)bytes;
#if defined(__riscv)
  __asm__ volatile("fence iorw, iorw" ::: "memory");
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("dsb sy" ::: "memory");
#else
  __sync_synchronize();
#endif
}

static uint32_t read_milliseconds(void *context) {
  struct timespec time = {0, 0};
  (void)context;
  (void)clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint32_t)(((uint64_t)time.tv_sec * 1000u) + ((uint64_t)time.tv_nsec / 1000000u));
}

/* UIO disables the interrupt when it occurs, and a write of 1 enables it again. A lost interrupt costs MAX_SLEEP_MS. */
static void sleep_until_interrupt(void *context) {
  const tensordash_linux *devices = context;
  const uint32_t enable = 1u;
  uint32_t count = 0u;
  struct pollfd waited = {.fd = devices->interrupt, .events = POLLIN};
  if ((write(devices->interrupt, &enable, sizeof enable) == (ssize_t)sizeof enable) &&
      (poll(&waited, 1, MAX_SLEEP_MS) > 0)) {
    (void)!read(devices->interrupt, &count, sizeof count);
  }
}

static void *map(int file, size_t bytes) {
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return (mapped == MAP_FAILED) ? NULL : mapped;
}

const char *tensordash_linux_open(
    tensordash_linux *devices, const char *registers, const char *memory, uint64_t address, size_t bytes) {
  const char *failed = NULL;
  int reason = 0;
  int file = -1;
  devices->registers = NULL;
  devices->memory = NULL;
  devices->bytes = bytes;
  devices->address = address;
  devices->interrupt = open(registers, O_RDWR | O_SYNC);
  if (devices->interrupt < 0) {
    failed = "open the registers";
  } else if ((devices->registers = map(devices->interrupt, REGISTER_BYTES)) == NULL) {
    failed = "map the registers";
  } else if ((file = open(memory, O_RDWR | O_SYNC)) < 0) { /* O_SYNC: udmabuf maps memory without a cache */
    failed = "open the memory";
  } else if ((devices->memory = map(file, bytes)) == NULL) {
    failed = "map the memory";
  } else {
    /* Everything is mapped. */
  }
  reason = errno;
  if (file >= 0) {
    (void)close(file);
  }
  if (failed != NULL) {
    tensordash_linux_close(devices);
    errno = reason;
  }
  return failed;
}

tensordash_port tensordash_linux_port(tensordash_linux *devices) {
  const tensordash_port port = {
      .context = devices,
      .base = devices->registers,
      .now = read_milliseconds,
      .sleep = sleep_until_interrupt,
      .publish = order_accesses,
      .acquire = order_accesses,
  };
  return port;
}

uint64_t tensordash_linux_address(const tensordash_linux *devices, const volatile void *byte) {
  return devices->address + (uint64_t)((const volatile uint8_t *)byte - devices->memory);
}

void tensordash_linux_close(tensordash_linux *devices) {
  if (devices->memory != NULL) {
    (void)munmap(devices->memory, devices->bytes);
    devices->memory = NULL;
  }
  if (devices->registers != NULL) {
    (void)munmap((void *)(uintptr_t)devices->registers, REGISTER_BYTES);
    devices->registers = NULL;
  }
  if (devices->interrupt >= 0) {
    (void)close(devices->interrupt);
    devices->interrupt = -1;
  }
}
