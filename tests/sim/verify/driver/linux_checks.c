/* Checks of the driver on Linux: files in place of devices, with the Verilated core. `test_linux.py` runs them. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tensordash_linux.h"

#include "cases.h"

/* The library of sim/tensordash_sim/verify/core_harness.cpp. */
typedef struct Device Device;
Device *core_new(uint64_t base, uint64_t size, unsigned low, unsigned high, double pause, uint64_t seed);
void core_delete(Device *core);
uint8_t *core_memory(Device *core);
int core_write(Device *core, uint32_t address, uint32_t value);
int core_read(Device *core, uint32_t address, uint32_t *value);
int core_run(Device *core, uint64_t cycles);

#define LIMIT 20000u /* milliseconds */

static int failures;
static void check(int line, const char *what, uint64_t found, uint64_t expected) {
  if (found != expected) {
    printf("linux_checks.c:%d: %s is %llu, expected %llu\n", line, what, (unsigned long long)found,
           (unsigned long long)expected);
    failures++;
  }
}
#define CHECK(found, expected) check(__LINE__, #found, (uint64_t)(found), (uint64_t)(expected))

static tensordash_linux devices;
static Device *core;
static volatile uint32_t *page; /* a second map of the registers' file */
static int interrupt; /* one of a pair of sockets; the driver has the other one */
static bool is_wired;
static unsigned interrupts;
static void (*sleep_on_linux)(void *context);

/* Copy registers between the core and the driver's map of the file. */
static uint32_t read_core(void *context, uint32_t offset) {
  uint32_t value = 0;
  (void)context;
  if (!core_read(core, offset, &value)) abort();
  page[offset / 4] = value;
  return devices.registers[offset / 4];
}
static void write_core(void *context, uint32_t offset, uint32_t value) {
  (void)context;
  devices.registers[offset / 4] = value;
  if (!core_write(core, offset, page[offset / 4])) abort();
}
/* Run the core on the file's memory while the driver sleeps. */
static void sleep_with_core(void *context) {
  uint32_t enabled = 0;
  memcpy(core_memory(core), devices.memory, SIZE);
  const bool raised = core_run(core, 100000) == 1;
  memcpy(devices.memory, core_memory(core), SIZE);
  if (raised && is_wired) {
    CHECK(send(interrupt, &enabled, sizeof enabled, 0), 4);
  }
  sleep_on_linux(context);
  CHECK(recv(interrupt, &enabled, sizeof enabled, MSG_DONTWAIT), 4);
  CHECK(enabled, 1);
  interrupts++;
}

static unsigned count_open_files(void) {
  unsigned count = 0;
  for (int file = 0; file < 256; file++) count += fcntl(file, F_GETFD) != -1;
  return count;
}

static void check_errors(void) {
  const struct {
    const char *registers, *memory, *failed;
    size_t bytes;
    int reason;
  } cases[] = {
      {"missing", "memory", "open the registers", SIZE, ENOENT},
      {"/dev/null", "memory", "map the registers", SIZE, ENODEV},
      {"registers", "missing", "open the memory", SIZE, ENOENT},
      {"registers", "memory", "map the memory", 0, EINVAL},
      {"registers", "/dev/null", "map the memory", SIZE, ENODEV},
  };
  const unsigned before = count_open_files();
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    const char *failed = tensordash_linux_open(&devices, cases[k].registers, cases[k].memory, 0, cases[k].bytes);
    CHECK(errno, cases[k].reason);
    CHECK(failed != NULL && strcmp(failed, cases[k].failed) == 0, true);
  }
  CHECK(count_open_files(), before);
}

int main(void) {
  int ends[2];
  check_errors();
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) abort();
  interrupt = ends[1];
  CHECK(tensordash_linux_open(&devices, "registers", "memory", 0, SIZE) == NULL, true);
  const int file = open("registers", O_RDWR);
  void *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED || dup2(ends[0], devices.interrupt) < 0) abort();
  page = mapped;
  core = core_new(0, SIZE, 20, 40, 0.1, 1);

  tensordash_device device;
  tensordash_fault fault;
  tensordash_port port = tensordash_linux_port(&devices);
  CHECK(port.base == devices.registers, true);
  CHECK(tensordash_linux_address(&devices, devices.memory + 64), 64);
  sleep_on_linux = port.sleep;
  port.sleep = sleep_with_core;
  port.read = read_core;
  port.write = write_core;
  CHECK(tensordash_open(&device, &port, LIMIT), TENSORDASH_OK);
  /* Without the interrupt, the sleep of 100 ms ends. */
  for (int wired = 1; wired >= 0; wired--) {
    is_wired = wired;
    interrupts = 0;
    memcpy(devices.memory, BEFORE, sizeof BEFORE);
    const uint32_t began = port.now(&devices);
    CHECK(tensordash_start(&device, (uint32_t *)(void *)devices.memory, 0, COUNT, LIMIT), TENSORDASH_OK);
    CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
    if (!wired) CHECK(port.now(&devices) - began >= 100, true);
    tensordash_acquire(&device, devices.memory, SIZE);
    CHECK(memcmp(devices.memory, AFTER, sizeof AFTER), 0);
    CHECK(interrupts, 1);
    CHECK(tensordash_read_fault(&device, &fault), TENSORDASH_OK);
  }
  core_delete(core);
  (void)munmap(mapped, 4096);
  tensordash_linux_close(&devices);
  tensordash_linux_close(&devices);
  CHECK(devices.interrupt, -1);
  puts(failures ? "FAIL" : "PASS");
  return failures != 0;
}
