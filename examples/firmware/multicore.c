/* Programs on several cores that share their weights. `tensordash generate --preset core --cores 2 -o two` writes
 * the headers and the driver. The platform makes a port for each core, as for a single one; registers of core k begin at
 * byte k * TENSORDASH_MULTICORE_STRIDE.
 */
#include "tensordash_driver.h"
#include "tensordash_multicore.h"

#define CORES TENSORDASH_MULTICORE_CORES
#define PATIENCE 65535u /* cycles that a core waits for the others before it reads shared weights */

/* A core's program: where the processor and the core see its descriptors, and their number. */
typedef struct {
  uint32_t *program;
  uint64_t address;
  uint32_t count;
} core_program;

/* Write a register of the memory port that all cores share. Its offset counts from the first core's registers. */
static void write_shared(const tensordash_port *first, uint32_t offset, uint32_t value) {
  if (first->write != NULL) {
    first->write(first->context, offset, value);
  } else {
    first->base[offset / 4u] = value;
  }
}

static uint32_t read_shared(const tensordash_port *first, uint32_t offset) {
  return first->read != NULL ? first->read(first->context, offset) : first->base[offset / 4u];
}

/* Run a program on each core. All programs load the tensors from `begin` to `end` - 1 in the same order; both are
 * multiples of 4096. Memory sends each of these tensors once.
 *
 * Returns the first status that is not TENSORDASH_OK. `*is_shared` is false if a core waited for longer than PATIENCE,
 * so that each core loaded the tensors alone.
 */
tensordash_status run_cores(const tensordash_port ports[CORES], const core_program programs[CORES], uint64_t begin,
                            uint64_t end, uint32_t limit, bool *is_shared);

tensordash_status run_cores(const tensordash_port ports[CORES], const core_program programs[CORES], uint64_t begin,
                            uint64_t end, uint32_t limit, bool *is_shared) {
  tensordash_device devices[CORES];
  tensordash_status status = TENSORDASH_OK;

  write_shared(&ports[0], TENSORDASH_MULTICORE_SHARED_BASE, (uint32_t)begin);
  write_shared(&ports[0], TENSORDASH_MULTICORE_SHARED_BASE_HIGH, (uint32_t)(begin >> 32));
  write_shared(&ports[0], TENSORDASH_MULTICORE_SHARED_LIMIT, (uint32_t)(end - 1u));
  write_shared(&ports[0], TENSORDASH_MULTICORE_SHARED_LIMIT_HIGH, (uint32_t)((end - 1u) >> 32));
  write_shared(&ports[0], TENSORDASH_MULTICORE_PATIENCE, PATIENCE);
  for (uint32_t k = 0; k < CORES && status == TENSORDASH_OK; k++) {
    status = tensordash_open(&devices[k], &ports[k], limit);
  }
  for (uint32_t k = 0; k < CORES && status == TENSORDASH_OK; k++) {
    const core_program *each = &programs[k];
    status = tensordash_start(&devices[k], each->program, each->address, each->count, limit);
  }
  for (uint32_t k = 0; k < CORES && status == TENSORDASH_OK; k++) {
    status = tensordash_wait(&devices[k], limit);
  }
  *is_shared = read_shared(&ports[0], TENSORDASH_MULTICORE_PATIENCE) != 0u;
  return status;
}
