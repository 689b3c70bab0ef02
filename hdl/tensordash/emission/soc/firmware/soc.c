/* What firmware uses: text over the UART, and the functions that a compiler calls. */
#include "soc.h"

#include <stddef.h>

void print(const char *text) {
  while (*text != '\0') {
    SOC_UART = (uint8_t)*text++;
  }
}

void print_number(uint32_t number) {
  char digits[11];
  char *first = &digits[10];
  *first = '\0';
  do {
    *--first = (char)('0' + number % 10u);
    number /= 10u;
  } while (number != 0u);
  print(first);
}

void print_hex(uint32_t number) {
  for (uint32_t shift = 32u; shift != 0u; shift -= 4u) {
    SOC_UART = (uint8_t)"0123456789abcdef"[number >> (shift - 4u) & 15u];
  }
}

uint32_t crc32(const volatile uint32_t *words, uint32_t count) {
  static const uint32_t table[16] = {
      0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
      0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
  uint32_t sum = UINT32_MAX;
  for (uint32_t k = 0u; k < count; k++) {
    sum ^= words[k];
    for (uint32_t digit = 0u; digit < 8u; digit++) {
      sum = (sum >> 4u) ^ table[sum & 15u];
    }
  }
  return ~sum;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
  uint8_t *target = to;
  const uint8_t *source = from;
  while (bytes-- != 0u) {
    *target++ = *source++;
  }
  return to;
}

void *memset(void *to, int value, size_t bytes) {
  uint8_t *target = to;
  while (bytes-- != 0u) {
    *target++ = (uint8_t)value;
  }
  return to;
}
