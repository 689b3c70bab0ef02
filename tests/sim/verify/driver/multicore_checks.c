/* Checks of examples/firmware/multicore.c on two Verilated cores: `test_multicore.py` compiles and runs them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "multicore.c"

#include "cases.h"
#include "verilated_core.h"

#define LIMIT 1000000u

static Device *device;

/* The context of a port is the offset of its registers. */
static uint32_t read_register_of(void *context, uint32_t offset) {
  uint32_t value = 0;
  if (!core_read(device, *(const uint32_t *)context + offset, &value)) abort();
  return value;
}
static void write_register_of(void *context, uint32_t offset, uint32_t value) {
  if (!core_write(device, *(const uint32_t *)context + offset, value)) abort();
}
static uint32_t cycle(void *context) {
  (void)context;
  return (uint32_t)core_cycle(device);
}

int main(void) {
  static uint32_t offsets[CORES];
  tensordash_port ports[CORES];
  core_program programs[CORES];
  bool is_shared = false;

  device = core_new(0, sizeof BEFORE, 20, 20, 0.0, 0);
  memcpy(core_memory(device), BEFORE, sizeof BEFORE);
  for (uint32_t k = 0; k < CORES; k++) {
    offsets[k] = k * TENSORDASH_MULTICORE_STRIDE;
    ports[k] = (tensordash_port){
        .context = &offsets[k], .read = read_register_of, .write = write_register_of, .now = cycle};
    programs[k] = (core_program){
        .program = (uint32_t *)(void *)(core_memory(device) + BASES[k]), .address = BASES[k], .count = COUNT};
  }
  tensordash_status status = run_cores(ports, programs, 0, SHARED_END, LIMIT, &is_shared);
  const int differs = memcmp(core_memory(device), AFTER, sizeof AFTER) != 0;
  printf("status %d, shared %d, differs %d\n", (int)status, is_shared, differs);

  /* Without its loads, the last core never requests the weights, so the others stop waiting. */
  programs[CORES - 1].program += 16u * (COUNT - 1u);
  programs[CORES - 1].address += 64u * (COUNT - 1u);
  programs[CORES - 1].count = 1;
  status = run_cores(ports, programs, 0, SHARED_END, LIMIT, &is_shared);
  printf("status %d, shared %d\n", (int)status, is_shared);

  /* A core that is not there. */
  offsets[CORES - 1] = CORES * TENSORDASH_MULTICORE_STRIDE;
  status = run_cores(ports, programs, 0, SHARED_END, LIMIT, &is_shared);
  printf("status %d\n", (int)status);
  core_delete(device);
  return 0;
}
