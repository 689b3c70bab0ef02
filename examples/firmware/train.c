/* Training steps: the core computes the products, and the processor all other operations (docs/program-folder.md).
 *
 *   tensordash compile --model mlp -o step
 *   tensordash soc --preset core --program step -o soc
 *   make -C soc run FIRMWARE=$PWD/examples/firmware/train.c
 */
#include "program.h"
#include "soc.h"
#include "tensordash_driver.h"

#define STEP_COUNT 3
#define LIMIT 50000000u /* cycles */

static uint32_t now(void *context) {
  (void)context;
  return SOC_CYCLES;
}

static tensordash_status run_step(tensordash_device *device) {
  tensordash_status status = TENSORDASH_OK;
  for (uint32_t k = 0; k < TENSORDASH_PROGRAM_CALLS && status == TENSORDASH_OK; k++) {
    const struct tensordash_call *call = &tensordash_calls[k];
    if (call->descriptors == 0) {
      tensordash_host_call(call->host_call, (uint8_t *)(uintptr_t)TENSORDASH_PROGRAM_BASE);
      continue;
    }
    uint32_t *program = (uint32_t *)(uintptr_t)call->address;
    status = tensordash_start(device, program, call->address, call->descriptors, LIMIT);
    if (status == TENSORDASH_OK) status = tensordash_wait(device, LIMIT);
  }
  return status;
}

int main(void) {
  const tensordash_port port = {.base = SOC_CORE, .now = now};
  const struct tensordash_tensor *loss = &tensordash_tensors[TENSORDASH_TENSOR_LOSS];
  tensordash_device device;

  tensordash_status status = tensordash_open(&device, &port, LIMIT);
  for (uint32_t step = 1; step <= STEP_COUNT && status == TENSORDASH_OK; step++) {
    status = run_step(&device);
    if (status != TENSORDASH_OK) break;
    /* Write a new batch to the input tensors here. */
    print("step ");
    print_number(step);
    print(": loss ");
    print_hex(*(const volatile uint32_t *)(uintptr_t)loss->address);
    print("\n");
  }
  return (int)status;
}
