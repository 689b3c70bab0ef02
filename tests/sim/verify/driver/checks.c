/* Checks of the driver on the Verilated core: `test_driver.py` compiles and runs them. Each failure prints a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensordash_driver.h"

#include "cases.h"
#include "verilated_core.h"

#define LIMIT 100000u
#define NEVER UINT32_MAX
#define READ_DATA 1 /* a channel of `core_silence` */

static int failures;
static void check(int line, const char *what, uint64_t found, uint64_t expected) {
  if (found != expected) {
    printf("checks.c:%d: %s is %llu, expected %llu\n", line, what, (unsigned long long)found,
           (unsigned long long)expected);
    failures++;
  }
}
#define CHECK(found, expected) check(__LINE__, #found, (uint64_t)(found), (uint64_t)(expected))
#define CHECK_TEXT(found, expected) \
  do { \
    if (strcmp((found), (expected)) != 0) { \
      printf("checks.c:%d: %s is \"%s\", expected \"%s\"\n", __LINE__, #found, (found), (expected)); \
      failures++; \
    } \
  } while (0)

static Device *core;
static uint8_t *memory;
static unsigned sleeps, publishes;
static size_t published, acquired;

/* A register that returns another value when it is read. */
static uint32_t changed_register = NEVER, changed_value;

static uint32_t read_core(void *context, uint32_t offset) {
  uint32_t value = 0;
  if (!core_read((Device *)context, offset, &value)) abort();
  return offset == changed_register ? changed_value : value;
}
static void write_core(void *context, uint32_t offset, uint32_t value) {
  if (!core_write((Device *)context, offset, value)) abort();
}
static uint32_t cycle(void *context) { return (uint32_t)core_cycle((Device *)context); }
static void sleep_until_interrupt(void *context) {
  sleeps++;
  (void)core_run((Device *)context, 1000);
}
static void publish(void *context, const volatile void *start, size_t bytes) {
  (void)context, (void)start;
  publishes++;
  published += bytes;
}
static void acquire(void *context, const volatile void *start, size_t bytes) {
  (void)context, (void)start;
  acquired += bytes;
}

static tensordash_port port(void) {
  tensordash_port made = {0};
  made.context = core;
  made.read = read_core;
  made.write = write_core;
  made.now = cycle;
  return made;
}
static tensordash_device opened(void) {
  tensordash_device device;
  const tensordash_port made = port();
  CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_OK);
  return device;
}
static uint32_t *words(uint64_t address) { return (uint32_t *)(void *)(memory + address); }
static void put_program(void) { memcpy(memory, BEFORE, sizeof BEFORE); }
static bool is_right(void) { return memcmp(memory, AFTER, sizeof AFTER) == 0; }

static void check_open(void) {
  tensordash_device device;
  tensordash_port made = port();
  CHECK(tensordash_open(NULL, &made, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_open(&device, NULL, LIMIT), TENSORDASH_BAD_ARGUMENT);
  made.write = NULL;
  CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_BAD_ARGUMENT);
  made = port(), made.read = NULL;
  CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_BAD_ARGUMENT);
  made = port(), changed_register = TENSORDASH_REGISTER_IDENTITY, changed_value = 0;
  CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_NO_CORE);
  changed_register = TENSORDASH_REGISTER_DIGEST;
  CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_OTHER_CORE);
  changed_register = TENSORDASH_REGISTER_DIGEST_HIGH;
  CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_OTHER_CORE);
  changed_register = NEVER;
  CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_OK);
}

/* Check the port's defaults, with memory in place of the core's registers. */
static void check_defaults(void) {
  static uint32_t registers[0x100];
  tensordash_device device;
  tensordash_port made = {0};
  made.base = registers;
  registers[TENSORDASH_REGISTER_IDENTITY / 4] = TENSORDASH_IDENTITY_VALUE;
  registers[TENSORDASH_REGISTER_DIGEST / 4] = (uint32_t)TENSORDASH_DIGEST;
  registers[TENSORDASH_REGISTER_DIGEST_HIGH / 4] = (uint32_t)(TENSORDASH_DIGEST >> 32);
  CHECK(tensordash_open(&device, &made, 10), TENSORDASH_OK);
  CHECK(registers[TENSORDASH_REGISTER_CONTROL / 4], TENSORDASH_REGISTER_CONTROL_RESET_MASK);
  CHECK(tensordash_set_ring(&device, words(0), 0, 4, 10), TENSORDASH_OK);
  CHECK(tensordash_submit(&device, words(0), 2), TENSORDASH_OK);
  CHECK(registers[TENSORDASH_REGISTER_TAIL / 4], 2);
  CHECK(tensordash_wait(&device, 10), TENSORDASH_TIMEOUT);
  tensordash_publish(&device, memory, 1);
  tensordash_acquire(&device, memory, 1);
  registers[TENSORDASH_REGISTER_STATUS / 4] = TENSORDASH_REGISTER_STATUS_RESETTING_MASK;
  CHECK(tensordash_reset(&device, 10), TENSORDASH_TIMEOUT);
  CHECK(tensordash_set_ring(&device, words(0), 0, 4, 10), TENSORDASH_TIMEOUT);
  CHECK(tensordash_open(&device, &made, 10), TENSORDASH_TIMEOUT);
}

static void check_rings(void) {
  tensordash_device device = opened();
  const uint64_t end = UINT64_MAX >> (64 - TENSORDASH_ADDRESS_BITS);
  CHECK(tensordash_submit(&device, words(0), 1), TENSORDASH_NOT_READY);
  CHECK(tensordash_set_ring(&device, NULL, 0, 4, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_set_ring(&device, words(0), 0, 0, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_set_ring(&device, words(0), 0, 3, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_set_ring(&device, words(0), 0, 65536, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_set_ring(&device, words(0), 32, 4, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_set_ring(&device, words(0), end - 63, 2, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_set_ring(&device, words(0), UINT64_MAX - 63, 1, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_start(&device, words(0), 0, 40000, LIMIT), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_set_ring(&device, words(0), end - 63, 1, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_submit(&device, NULL, 1), TENSORDASH_BAD_ARGUMENT);
}

/* Run a program where it is in memory: by polling, and by interrupts with all hooks. */
static void check_programs(void) {
  tensordash_device device;
  for (int by_interrupt = 0; by_interrupt < 2; by_interrupt++) {
    tensordash_port made = port();
    if (by_interrupt) made.sleep = sleep_until_interrupt, made.publish = publish, made.acquire = acquire;
    CHECK(tensordash_open(&device, &made, LIMIT), TENSORDASH_OK);
    device.watchdog = 5000;
    sleeps = 0, publishes = 0, published = 0, acquired = 0;
    put_program();
    CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
    CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
    CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
    tensordash_acquire(&device, memory, 100);
    CHECK(is_right(), true);
    CHECK(sleeps > 0 && sleeps < 5, by_interrupt);
    CHECK(published, by_interrupt ? COUNT * 64 : 0);
    CHECK(acquired, by_interrupt ? 100 : 0);
    tensordash_fault fault;
    CHECK(tensordash_read_fault(&device, &fault), TENSORDASH_OK);
    CHECK(fault.code, 0);
  }
  CHECK(tensordash_acknowledge(&device), 0);
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  (void)core_run(core, LIMIT);
  CHECK(tensordash_acknowledge(&device), TENSORDASH_REGISTER_CAUSE_END_MASK);
  CHECK(core_run(core, 10), 0);
}

/* Submit a program piece by piece to a ring of four places. */
static void check_queue(void) {
  tensordash_device device = opened();
  static uint32_t program[COUNT * 16];
  put_program();
  memcpy(program, memory, sizeof program);
  CHECK(tensordash_set_ring(&device, words(RING), RING, 4, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_submit(&device, program, 5), TENSORDASH_FULL);
  uint32_t submitted = 0, refused = 0;
  while (submitted < COUNT) {
    const tensordash_status found = tensordash_submit(&device, program + submitted * 16, 1);
    if (found == TENSORDASH_OK) submitted++; else refused++;
    if (found != TENSORDASH_OK) CHECK(found, TENSORDASH_FULL);
    if (failures != 0) return;
  }
  CHECK(refused > 0, true);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
  CHECK(is_right(), true);
}

static void check_limits(void) {
  tensordash_device device = opened();
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, 20), TENSORDASH_TIMEOUT);
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_BUSY);
  CHECK(tensordash_restrict(&device, 0, 0xfff), TENSORDASH_BUSY);
  /* Reset during the program, and run it again. */
  CHECK(tensordash_reset(&device, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_submit(&device, words(0), 1), TENSORDASH_NOT_READY);
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
  CHECK(is_right(), true);
}

/* Stop the memory during a program, until a reset has timed out. */
static void check_watchdog(void) {
  tensordash_device device = opened();
  device.watchdog = 2000;
  put_program();
  core_silence(core, READ_DATA, 6);
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_SILENT);
  CHECK(tensordash_reset(&device, 5000), TENSORDASH_TIMEOUT);
  core_silence(core, -1, 0);
  CHECK(tensordash_reset(&device, LIMIT), TENSORDASH_OK);
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, NEVER), TENSORDASH_OK);
  CHECK(is_right(), true);
}

static void check_counters(void) {
  tensordash_device device = opened();
  tensordash_counts counts;
  uint32_t value = 0;
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
  tensordash_count(&device, &counts, true);
  CHECK(counts.steps > 0 && counts.write_beats > 0 && counts.cycles > counts.multiplying, true);
#define CHECK_COUNTER(NAME, name) \
  CHECK(core_read(core, TENSORDASH_REGISTER_##NAME, &value), 1); \
  CHECK(counts.name, value);
  TENSORDASH_COUNTERS(CHECK_COUNTER)
  tensordash_count(&device, &counts, false);
  CHECK(counts.steps, 0);
  CHECK(counts.cycles > 0, true);
}

/* Read the fault of a failed core, and compare its names. */
static tensordash_fault check_fault(tensordash_device *device, const char *error, const char *operation,
                                    const char *field) {
  tensordash_fault fault;
  CHECK(tensordash_read_fault(device, &fault), TENSORDASH_FAILED);
  CHECK_TEXT(fault.error, error);
  CHECK_TEXT(fault.operation, operation);
  CHECK_TEXT(fault.field, field);
  return fault;
}

/* Run each wrong descriptor after two right ones. */
static void check_faults(void) {
  tensordash_device device = opened();
  for (size_t k = 0; k < sizeof FAULTS / sizeof FAULTS[0]; k++) {
    const wrong_descriptor *wrong = &FAULTS[k];
    memset(memory, 0, sizeof BEFORE);
    CHECK(tensordash_set_ring(&device, words(RING), RING, 4, LIMIT), TENSORDASH_OK);
    for (int right = 0; right < 2; right++) CHECK(tensordash_submit(&device, RECORD, 1), TENSORDASH_OK);
    CHECK(tensordash_submit(&device, wrong->words, 1), TENSORDASH_OK);
    CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_FAILED);
    CHECK(tensordash_submit(&device, RECORD, 1), TENSORDASH_FAILED);
    const tensordash_fault fault = check_fault(&device, wrong->error, wrong->operation, wrong->field);
    CHECK(fault.index, 2);
    CHECK(fault.descriptor == words(RING) + 32, true);
    CHECK(fault.bit, wrong->bit);
    if (failures > 10) return;
  }
  printf("%u wrong descriptors\n", (unsigned)(sizeof FAULTS / sizeof FAULTS[0]));
}

/* Run a program in a ring and bounds above 4 GiB. */
static void check_high_addresses(void) {
  const uint64_t base = UINT64_C(1) << 32;
  Device *low = core;
  core = core_new(base, SIZE, 20, 40, 0.1, 1);
  memory = core_memory(core);
  tensordash_device device = opened();
  CHECK(tensordash_restrict(&device, base, base + 0xfff), TENSORDASH_OK);
  CHECK(tensordash_set_ring(&device, words(64), base + 64, 4, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_submit(&device, HIGH_RECORD, 1), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
  core_delete(core);
  core = low, memory = core_memory(core);
}

/* Check errors outside of descriptors, and faults of descriptors that were overwritten afterwards. */
static void check_other_faults(void) {
  tensordash_device device = opened();
  tensordash_fault fault;
  CHECK(tensordash_start(&device, words(0), SIZE, 1, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_FAILED);
  CHECK(check_fault(&device, "fetch", "", "").descriptor == NULL, true);

  CHECK(tensordash_restrict(&device, 0x800, 0xfff), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_restrict(&device, 0, 0x800), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_restrict(&device, 0x2000, 0x1fff), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_restrict(&device, 0, UINT64_MAX), TENSORDASH_BAD_ARGUMENT);
  CHECK(tensordash_restrict(&device, RING, RING + 0xfff), TENSORDASH_OK);
  CHECK(tensordash_set_ring(&device, words(RING), RING, 4, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_submit(&device, RECORD, 1), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_FAILED);
  check_fault(&device, "bounds", "record", "memory");
  CHECK(tensordash_reset(&device, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_restrict(&device, 0, UINT64_MAX >> (64 - TENSORDASH_ADDRESS_BITS)), TENSORDASH_OK);

  CHECK(tensordash_set_ring(&device, words(RING), RING, 4, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_submit(&device, FAULTS[FIELD_FAULT].words, 1), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_FAILED);
  memcpy(words(RING), RECORD, sizeof RECORD);
  check_fault(&device, "field", "record", "");
  memcpy(words(RING), COMPRESSED, sizeof COMPRESSED);
  check_fault(&device, "field", "load", "");
  memcpy(words(RING), MULTIPLY, sizeof MULTIPLY);
  check_fault(&device, "field", "multiply", "");
  TENSORDASH_SET(words(RING), HEADER_OPERATION, 15);
  check_fault(&device, "field", "", "");
  memcpy(words(RING), RECORD, sizeof RECORD);
  changed_register = TENSORDASH_REGISTER_ERROR, changed_value = TENSORDASH_ERROR_CODE_RESERVED;
  CHECK(check_fault(&device, "reserved", "record", "").bit, 512);
  changed_value = 200;
  check_fault(&device, "", "record", "");
  CHECK(tensordash_reset(&device, LIMIT), TENSORDASH_OK);
  CHECK(check_fault(&device, "", "", "").descriptor == NULL, true);
  changed_register = NEVER;
  CHECK(tensordash_read_fault(&device, &fault), TENSORDASH_OK);
}

/* Run memory's power-up contents as a program: the first descriptor is an error, and nothing is written. */
static void check_power_up_contents(void) {
  static uint8_t contents[SIZE];
  uint64_t state = 1;
  for (unsigned kind = 0; kind < 8; kind++) {
    tensordash_device device = opened();
    tensordash_fault fault;
    for (size_t k = 0; k < SIZE; k++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      contents[k] = (uint8_t)(kind == 0 ? 0 : kind == 1 ? 255 : state >> 32);
    }
    memcpy(memory, contents, SIZE);
    CHECK(tensordash_start(&device, words(0), 0, 100, LIMIT), TENSORDASH_OK);
    CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_FAILED);
    CHECK(tensordash_read_fault(&device, &fault), TENSORDASH_FAILED);
    CHECK(fault.code == TENSORDASH_ERROR_CODE_OPERATION || fault.code == TENSORDASH_ERROR_CODE_RESERVED, true);
    CHECK(fault.index, 0);
    CHECK(memcmp(memory, contents, SIZE), 0);
  }
  tensordash_device device = opened();
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_OK);
  CHECK(is_right(), true);
}

/* Overwrite the program of a running core; then move the bounds away from the program's memory. */
static void check_interference(void) {
  tensordash_device device = opened();
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  memset(words(64), 255, 64);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_FAILED);
  CHECK(check_fault(&device, "operation", "", "operation").index, 1);

  CHECK(tensordash_reset(&device, LIMIT), TENSORDASH_OK);
  put_program();
  CHECK(tensordash_start(&device, words(0), 0, COUNT, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_restrict(&device, 0, 0xfff), TENSORDASH_BUSY);
  CHECK(core_write(core, TENSORDASH_REGISTER_BOUNDS_BASE, RING), 1);
  CHECK(tensordash_wait(&device, LIMIT), TENSORDASH_FAILED);
  check_fault(&device, "bounds", "load", "memory");
  CHECK(tensordash_reset(&device, LIMIT), TENSORDASH_OK);
  CHECK(tensordash_restrict(&device, 0, UINT64_MAX >> (64 - TENSORDASH_ADDRESS_BITS)), TENSORDASH_OK);
}

int main(void) {
  core = core_new(0, SIZE, 20, 40, 0.1, 1), memory = core_memory(core);
  check_open();
  check_defaults();
  check_rings();
  check_programs();
  check_queue();
  check_limits();
  check_watchdog();
  check_counters();
  check_faults();
  check_other_faults();
  check_power_up_contents();
  check_interference();
  check_high_addresses();
  core_delete(core);
  puts(failures ? "FAIL" : "PASS");
  return failures != 0;
}
