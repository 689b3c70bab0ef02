/* Execute the calls of a program folder, and compare each tensor with the expected contents by CRC-32.
 *
 * STEPS is the number of repetitions. steps.h has the checksums of each step, and the inputs of each batch, if any.
 * Without steps.h, only the first step is compared.
 */
#include "program.h"
#include "soc.h"
#include "tensordash_driver.h"
#ifdef WITH_STEPS
#include "steps.h"
#endif

#define LIMIT 50000000u  /* maximum cycles of a program */
#define WATCHDOG 100000u /* maximum cycles without progress */

#ifndef STEPS
#define STEPS 1u
#endif
#ifndef COMPARED_STEPS
#define COMPARED_STEPS 1u
#endif
#ifndef BATCHES
#define BATCHES 0u
#endif

/* Cycles of the current step. */
static uint32_t in_programs; /* cycles of programs, from start to end */
static uint32_t asleep;      /* cycles of programs in which the processor slept */
static uint32_t multiplying; /* cycles of programs in which the core multiplied */
static uint32_t in_call[TENSORDASH_PROGRAM_CALLS];

static uint32_t read_cycles(void *context) {
  (void)context;
  return SOC_CYCLES;
}

/* Sleep until an interrupt. The alarm ends the sleep, so that the driver checks its limits. */
static void sleep(void *context) {
  (void)context;
  const uint32_t began = SOC_CYCLES;
  SOC_ALARM = WATCHDOG;
  wait_for_interrupt();
  SOC_ALARM = 0u;
  asleep += SOC_CYCLES - began;
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

/* Execute all calls once. */
static tensordash_status run_calls(tensordash_device *device) {
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_CALLS; k++) {
    const struct tensordash_call *call = &tensordash_calls[k];
    const uint32_t began = SOC_CYCLES;
    if (call->descriptors != 0u) {
      SOC_STOP_CORE = 0u;
      tensordash_status status = tensordash_start(
          device, (uint32_t *)(uintptr_t)call->address, call->address, call->descriptors, LIMIT);
      if (status == TENSORDASH_OK) {
        status = tensordash_wait(device, LIMIT);
      }
      if (status != TENSORDASH_OK) {
        return status;
      }
      SOC_STOP_CORE = 1u;
      in_programs += SOC_CYCLES - began;
      tensordash_counts counts;
      tensordash_count(device, &counts, false);
      multiplying += counts.multiplying;
    } else {
#ifdef WITH_HOST_CALLS
      tensordash_host_call(call->host_call, (uint8_t *)(uintptr_t)TENSORDASH_PROGRAM_BASE);
#endif
      in_call[k] = SOC_CYCLES - began;
    }
  }
  return TENSORDASH_OK;
}

/* Print the cycles of host calls, by function. */
static void print_host_calls(void) {
  uint32_t total = 0u;
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_CALLS; k++) {
    total += in_call[k];
  }
  print_value(", host calls ", total);
  print("\n");
#ifdef WITH_HOST_CALLS
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_CALLS; k++) {
    if (in_call[k] != 0u) {
      const char *name = tensordash_host_function(tensordash_calls[k].host_call);
      uint32_t calls = 0u;
      uint32_t cycles = 0u;
      for (uint32_t other = k; other < TENSORDASH_PROGRAM_CALLS; other++) {
        if (in_call[other] != 0u && tensordash_host_function(tensordash_calls[other].host_call) == name) {
          calls++;
          cycles += in_call[other];
          in_call[other] = 0u;
        }
      }
      print("  ");
      print(name);
      print_value(": ", cycles);
      print_value(" in ", calls);
      print(calls == 1u ? " call\n" : " calls\n");
    }
  }
#endif
}

/* Print the tensor `loss`, if the program has one, with four decimals. */
static void print_loss(void) {
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_TENSORS; k++) {
    const struct tensordash_tensor *tensor = &tensordash_tensors[k];
    if (is_equal(tensor->name, "loss")) {
      const uint32_t loss = (uint32_t)(*(const volatile float *)(uintptr_t)tensor->address * 10000.0f + 0.5f);
      print_value(", loss ", loss / 10000u);
      print(".");
      for (uint32_t unit = 1000u; unit != 0u; unit /= 10u) {
        print_number(loss / unit % 10u);
      }
    }
  }
}

/* Set the inputs to a step's batch. */
static void set_inputs(uint32_t step) {
#if BATCHES
  const uint32_t *next = tensordash_batches[step % BATCHES];
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_TENSORS; k++) {
    const struct tensordash_tensor *tensor = &tensordash_tensors[k];
    if (tensor->is_input != 0u) {
      volatile uint32_t *words = (volatile uint32_t *)(uintptr_t)tensor->address;
      for (uint32_t word = 0u; word < tensor->bytes / 4u; word++) {
        words[word] = *next++;
      }
    }
  }
#else
  (void)step;
#endif
}

static uint32_t expected_checksum(uint32_t step, uint32_t tensor) {
#ifdef WITH_STEPS
  return tensordash_checksums[step][tensor];
#else
  (void)step;
  return tensordash_tensors[tensor].crc32;
#endif
}

/* Compare all tensors with their expected contents, print a checksum of all checksums, and return the differences. */
static uint32_t count_differences(uint32_t step) {
  uint32_t sums[TENSORDASH_PROGRAM_TENSORS];
  uint32_t wrong = 0u;
  uint32_t bytes = 0u;
  for (uint32_t k = 0u; k < TENSORDASH_PROGRAM_TENSORS; k++) {
    const struct tensordash_tensor *tensor = &tensordash_tensors[k];
    bytes += tensor->bytes;
    sums[k] = crc32((const volatile uint32_t *)(uintptr_t)tensor->address, tensor->bytes / 4u);
    if (sums[k] != expected_checksum(step, k)) {
      print("differs: ");
      print(tensor->name);
      print("\n");
      wrong++;
    }
  }
  if (wrong == 0u) {
    print_value("bit-equal: ", TENSORDASH_PROGRAM_TENSORS);
    print_value(" tensors, ", bytes);
    print(" bytes, checksum ");
    print_hex(crc32(sums, TENSORDASH_PROGRAM_TENSORS));
    print("\n");
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
  SOC_STOP_CORE = 1u;
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
    asleep = 0u;
    multiplying = 0u;
    set_inputs(step);
    status = run_calls(&device);
    if (status != TENSORDASH_OK) {
      return fail(&device, status);
    }
    print_value("step ", step + 1u);
    print_loss();
    print_value("\ncycles: programs ", in_programs);
    print_value(", of these asleep ", asleep);
    print_value(", multiplying ", multiplying);
    print_host_calls();
    if (step >= COMPARED_STEPS) {
      print("not compared: tensordash soc --steps writes the expected checksums\n");
    } else if (count_differences(step) != 0u) {
      return 1;
    }
  }
  return 0;
}
