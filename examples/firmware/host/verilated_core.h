/* The library of the Verilated core that `make core.so` builds, from sim/tensordash_sim/verify/core_harness.cpp. */
#ifndef VERILATED_CORE_H
#define VERILATED_CORE_H

#include <stdint.h>

typedef struct Device Device;
Device *core_new(uint64_t base, uint64_t size, unsigned low, unsigned high, double pause, uint64_t seed);
void core_delete(Device *core);
uint8_t *core_memory(Device *core);
uint64_t core_cycle(Device *core);
int core_write(Device *core, uint32_t address, uint32_t value);
int core_read(Device *core, uint32_t address, uint32_t *value);
int core_run(Device *core, uint64_t cycles);
void core_silence(Device *core, int channel, uint64_t from);

#endif
