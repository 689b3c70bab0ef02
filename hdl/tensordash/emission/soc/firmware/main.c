/* Executes the calls of a program folder, and compares every tensor with the expected contents by CRC-32.
 *
 * STEPS repeats the calls on the same input. Of a training step, the loss of each is printed.
 */
#include "program.h"
#include "soc.h"
#include "tensordash_driver.h"

#define LIMIT 50000000u  /* cycles for a program */
#define WATCHDOG 100000u /* cycles without progress */

#ifndef STEPS
#define STEPS 1u
#endif

/* Cycles of the processor. */
static uint32_t in_programs;
static uint32_t in_host_calls;
static uint32_t waited;

static uint32_t read_cycles(void *context) {
  (void)context;
  return SOC_CYCLES;
}

/* The alarm ends the sleep, so that the driver checks its limits. */
static void sleep(void *context) {
  (void)context;
  const uint32_t began = SOC_CYCLES;
  SOC_ALARM = WATCHDOG;
  wait_for_interrupt();
  SOC_ALARM = 0u;
  waited += SOC_CYCLES - began;
}

static const char *const messages[] = {
    "ok",        "bad argument",     "no core", "a core of another configuration",   "busy",
    "ring full", "no ring",          "failed",  "time limit", "memory does not answer"};

static int fail(tensordash_device *device, tensordash_status status) {
  print("error: ");
  print(messages[status]);
  tensordash_fault fault;
  if (status == TENSORDASH_FAILED && tensordash_read_fault(device, &fault) == TENSORDASH_FAILED) {
    print(": ");
    print(fault.error);
    print(", descriptor ");
    print_number(fault.index);
    print(" (");
    print(fault.operation);
    print("), field ");
    print(fault.field);
  }
  print("\n");
  return 1;
}

static void print_value(const char *name, uint32_t value) {
  print(name);
  print_number(value);
}

static bool is_equal(const char *a, const char *b) {
  while (*a != '\0' && *a == *b) {
    a++;
    b++;
  }
  return *a == *b;
}

static void print_counts(tensordash_device *device, uint32_t descriptors) {
  tensordash_counts counts;
  tensordash_count(device, &counts, false);
  print_value("program: ", descriptors);
  print_value(" descriptors, ", counts.multiplying);
  print_value(" cycles multiplying, beats read ", counts.read_beats);
  print_value(", written ", counts.write_beats);
  print("\n");
}

/* Execute all calls once. */
static tensordash_status run_calls(tensordash_device *device) {
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_CALLS; k++) {
    const struct tensordash_call *call = &tensordash_calls[k];
    const uint32_t began = SOC_CYCLES;
    if (call->descriptors != 0u) {
      tensordash_status status = tensordash_start(
          device, (uint32_t *)(uintptr_t)call->address, call->address, call->descriptors, LIMIT);
      if (status == TENSORDASH_OK) {
        status = tensordash_wait(device, LIMIT);
      }
      if (status != TENSORDASH_OK) {
        return status;
      }
      in_programs += SOC_CYCLES - began;
      print_counts(device, call->descriptors);
    } else {
#ifdef WITH_HOST_CALLS
      tensordash_host_call(call->host_call, (uint8_t *)(uintptr_t)TENSORDASH_PROGRAM_BASE);
      in_host_calls += SOC_CYCLES - began;
#endif
    }
  }
  return TENSORDASH_OK;
}

/* The tensor `loss`, if there is one, with four decimals. */
static void print_loss(void) {
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_TENSORS; k++) {
    const struct tensordash_tensor *tensor = &tensordash_tensors[k];
    if (is_equal(tensor->name, "loss")) {
      const uint32_t loss = (uint32_t)(*(const volatile float *)(uintptr_t)tensor->address * 10000.0f + 0.5f);
      print_value("loss ", loss / 10000u);
      print(".");
      for (uint32_t unit = 1000u; unit != 0u; unit /= 10u) {
        print_number(loss / unit % 10u);
      }
      print("\n");
    }
  }
}

/* Compare all tensors with their expected contents. */
static uint32_t count_wrong_tensors(void) {
  uint32_t wrong = 0u;
  uint32_t bytes = 0u;
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_TENSORS; k++) {
    const struct tensordash_tensor *tensor = &tensordash_tensors[k];
    bytes += tensor->bytes;
    if (crc32((const volatile uint32_t *)(uintptr_t)tensor->address, tensor->bytes / 4u) != tensor->crc32) {
      print("differs: ");
      print(tensor->name);
      print("\n");
      wrong++;
    }
  }
  if (wrong == 0u) {
    print_value("bit-equal: ", TENSORDASH_PROGRAM_TENSORS);
    print_value(" tensors, ", bytes);
    print(" bytes\n");
  }
  return wrong;
}

int main(void) {
  const tensordash_port port = {.base = SOC_CORE, .now = read_cycles, .sleep = sleep};
  tensordash_device device;
  tensordash_status status = tensordash_open(&device, &port, LIMIT);
  if (status != TENSORDASH_OK) {
    return fail(&device, status);
  }
  device.watchdog = WATCHDOG;
  print("core ");
  print_hex((uint32_t)(TENSORDASH_DIGEST >> 32));
  print_hex((uint32_t)TENSORDASH_DIGEST);
  print("\n");
  if (TENSORDASH_PROGRAM_DIGEST != (uint32_t)TENSORDASH_DIGEST ||
      TENSORDASH_PROGRAM_DIGEST_HIGH != (uint32_t)(TENSORDASH_DIGEST >> 32)) {
    print("error: the program is compiled for another configuration\n");
    return 1;
  }
  for (uint32_t step = 0u; step < STEPS; step++) {
    in_programs = 0u;
    in_host_calls = 0u;
    waited = 0u;
    status = run_calls(&device);
    if (status != TENSORDASH_OK) {
      return fail(&device, status);
    }
    print_value("cycles: programs ", in_programs);
    print_value(", of these asleep ", waited);
    print_value(", host calls ", in_host_calls);
    print("\n");
    print_loss();
    /* The expected contents are those after one step. */
    if (step == 0u && count_wrong_tensors() != 0u) {
      return 1;
    }
  }
  return 0;
}
