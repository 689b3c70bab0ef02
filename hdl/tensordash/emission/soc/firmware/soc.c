/* Functions for firmware: text over the UART, CRC-32, and functions that compilers call. */
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

/* `table[k]` has the sums of a byte before k bytes of zeros, so that the four bytes of a word take one step. */
uint32_t crc32(const volatile uint32_t *words, uint32_t count) {
  static uint32_t table[4][256];
  if (table[3][255] == 0u) {
    for (uint32_t byte = 0u; byte < 256u; byte++) {
      uint32_t rest = byte;
      for (uint32_t bit = 0u; bit < 8u; bit++) {
        rest = (rest >> 1u) ^ ((rest & 1u) != 0u ? 0xedb88320u : 0u);
      }
      table[0][byte] = rest;
    }
    for (uint32_t k = 0u; k < 3u; k++) {
      for (uint32_t byte = 0u; byte < 256u; byte++) {
        table[k + 1u][byte] = (table[k][byte] >> 8u) ^ table[0][table[k][byte] & 255u];
      }
    }
  }
  uint32_t sum = UINT32_MAX;
  for (uint32_t k = 0u; k < count; k++) {
    sum ^= words[k];
    sum = table[3][sum & 255u] ^ table[2][sum >> 8u & 255u] ^ table[1][sum >> 16u & 255u] ^ table[0][sum >> 24u];
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
