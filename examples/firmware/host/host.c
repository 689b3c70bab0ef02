/* Run an example on this machine, with the Verilated core instead of hardware, and memory at the program's addresses.
 *
 * The argument, if any, is a file for the memory's contents after the example. The exit status is 2 if the example
 * fails.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define TENSORDASH_PROGRAM_SECTION
#include "program.c"
#include "soc.h"
#include "tensordash.h"
#include "verilated_core.h"

#define MEMORY_BYTES ((size_t)1 << 20)

int firmware_main(void);

static Device *core;
static uint8_t *memory;
uint32_t host_alarm;

/* The core works on a copy of the memory. A write of `tail` makes the copy, and a read of `done` copies it back. */
uint32_t host_read(void *context, uint32_t offset) {
  uint32_t value = 0;
  (void)context;
  (void)core_read(core, offset, &value);
  if (offset == TENSORDASH_REGISTER_DONE) memcpy(memory, core_memory(core), MEMORY_BYTES);
  return value;
}

void host_write(void *context, uint32_t offset, uint32_t value) {
  (void)context;
  if (offset == TENSORDASH_REGISTER_TAIL) memcpy(core_memory(core), memory, MEMORY_BYTES);
  (void)core_write(core, offset, value);
}

uint32_t host_cycles(void) { return (uint32_t)core_cycle(core); }

void wait_for_interrupt(void) {
  (void)core_run(core, host_alarm != 0 ? host_alarm : 1000000);
  host_alarm = 0;
}

void print(const char *text) { (void)fputs(text, stdout); }
void print_number(uint32_t number) { (void)printf("%u", number); }
void print_hex(uint32_t number) { (void)printf("%08x", number); }

int main(int count, char **arguments) {
  void *address = (void *)(uintptr_t)TENSORDASH_PROGRAM_BASE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  if (mmap(address, MEMORY_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) != address) {
    perror("no memory at the program's address");
    return 2;
  }
  memory = address;
  memcpy(memory, tensordash_initial, sizeof tensordash_initial);
  core = core_new(TENSORDASH_PROGRAM_BASE, MEMORY_BYTES, 20, 40, 0.1, 1);
  const int status = firmware_main();
  core_delete(core);
  if (count > 1) {
    FILE *file = fopen(arguments[1], "wb");
    if (file == NULL || fwrite(memory, 1, MEMORY_BYTES, file) != MEMORY_BYTES || fclose(file) != 0) {
      perror(arguments[1]);
      return 2;
    }
  }
  (void)printf("status %d\n", status);
  return status == 0 ? 0 : 2;
}
