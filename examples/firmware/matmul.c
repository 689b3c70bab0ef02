/* The smallest firmware: start a program, sleep until the core's interrupt, and print the result.
 *
 *   tensordash soc --preset core -o soc
 *   make -C soc run FIRMWARE=$PWD/examples/firmware/matmul.c
 */
#include "program.h"
#include "soc.h"
#include "tensordash_driver.h"

#define LIMIT 100000u /* cycles */
#define RESULT 2      /* index of the tensor */

static uint32_t now(void *context) {
  (void)context;
  return SOC_CYCLES;
}

static void sleep(void *context) {
  (void)context;
  wait_for_interrupt();
}

int main(void) {
  const tensordash_port port = {.base = SOC_CORE, .now = now, .sleep = sleep};
  const struct tensordash_call *call = &tensordash_calls[0];
  const struct tensordash_tensor *result = &tensordash_tensors[RESULT];
  tensordash_device device;

  if (tensordash_open(&device, &port, LIMIT) != TENSORDASH_OK) return 1;
  if (tensordash_start(&device, (uint32_t *)(uintptr_t)call->address, call->address, call->descriptors, LIMIT) !=
      TENSORDASH_OK) {
    return 2;
  }
  const uint32_t started = SOC_CYCLES;
  wait_for_interrupt();
  const uint32_t slept = SOC_CYCLES - started;
  if (tensordash_acknowledge(&device) != TENSORDASH_REGISTER_CAUSE_END_MASK) return 3;
  if (tensordash_wait(&device, LIMIT) != TENSORDASH_OK) return 4;

  print(result->name);
  for (uint32_t k = 0; k < 4; k++) {
    print(" ");
    print_hex(((const volatile uint32_t *)(uintptr_t)result->address)[k]);
  }
  print("\nasleep for ");
  print_number(slept);
  print(" cycles\n");

  /* The alarm also wakes the processor. */
  SOC_ALARM = 1000;
  const uint32_t set = SOC_CYCLES;
  wait_for_interrupt();
  return SOC_CYCLES - set < 990 || SOC_CYCLES - set > 1100;
}
