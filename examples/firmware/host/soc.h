/* Devices of the system on this machine. See host.c. */
#ifndef SOC_H
#define SOC_H

#include <stddef.h>
#include <stdint.h>

uint32_t host_read(void *context, uint32_t offset);
void host_write(void *context, uint32_t offset, uint32_t value);
uint32_t host_cycles(void);
extern uint32_t host_alarm;

/* Initializes the port's members `base`, `read` and `write`. Registers have no address on this machine. */
#define SOC_CORE NULL, .read = host_read, .write = host_write
#define SOC_CYCLES host_cycles()
#define SOC_ALARM host_alarm

void wait_for_interrupt(void);
void print(const char *text);
void print_number(uint32_t number);
void print_hex(uint32_t number);

#endif
