/* Devices of the system; see soc.v. */
#ifndef SOC_H
#define SOC_H

#include <stdint.h>

#define SOC_UART (*(volatile uint32_t *)0x10000000u)
#define SOC_CYCLES (*(volatile uint32_t *)0x10000004u)
#define SOC_ALARM (*(volatile uint32_t *)0x10000008u)
#define SOC_EXIT (*(volatile uint32_t *)0x1000000cu)
#define SOC_STOP_CORE (*(volatile uint32_t *)0x10000010u)
#define SOC_CORE ((volatile uint32_t *)0x20000000u)

/* Sleep until an interrupt of the core or of the alarm. */
void wait_for_interrupt(void);

void print(const char *text);
void print_number(uint32_t number);
void print_hex(uint32_t number);

/* CRC-32 of little-endian words, as zlib computes it. */
uint32_t crc32(const volatile uint32_t *words, uint32_t count);

#endif
