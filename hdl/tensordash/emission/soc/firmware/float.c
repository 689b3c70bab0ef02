/* Addition and multiplication in single precision, rounded to nearest even, for a processor without floating point.
 *
 * The functions replace those of the compiler's library, which are slower. Results follow IEEE 754.
 * A NaN result is 0x7fc00000.
 */
#include <stdint.h>

#define INFINITY_BITS 0x7f800000u
#define NAN_BITS 0x7fc00000u
#define SIGN 0x80000000u

/* Compilers call these functions by name. Floats are passed in integer registers. */
uint32_t __addsf3(uint32_t a, uint32_t b);
uint32_t __subsf3(uint32_t a, uint32_t b);
uint32_t __mulsf3(uint32_t a, uint32_t b);

/* Round a significand with `guard` more bits than the result; a carry increments the exponent. */
#define ROUNDED(bits, significand, guard) \
  ((bits) + ((((significand) & ((1u << (guard)) - 1u)) + (((significand) >> (guard)) & 1u)) > (1u << ((guard) - 1u))))

uint32_t __addsf3(uint32_t a, uint32_t b) {
  if ((a << 1u) < (b << 1u)) { /* Let a have the larger magnitude. */
    const uint32_t swapped = a;
    a = b;
    b = swapped;
  }
  uint32_t exponent = (a << 1u) >> 24u;
  uint32_t distance = (b << 1u) >> 24u;
  if (exponent == 255u) {
    const int is_nan = (a << 9u) != 0u || ((b & ~SIGN) == INFINITY_BITS && a != b);
    return is_nan ? NAN_BITS : a;
  }
  /* The leading bit of a normal number is bit 30. */
  uint32_t large = (a << 7u) & 0x3fffff80u;
  uint32_t small = (b << 7u) & 0x3fffff80u;
  if (exponent != 0u) {
    large |= 0x40000000u;
  } else {
    exponent = 1u;
  }
  if (distance != 0u) {
    small |= 0x40000000u;
  } else {
    distance = 1u;
  }
  distance = exponent - distance;
  if (distance > 30u) {
    small = small != 0u;
  } else if (distance != 0u) {
    const uint32_t all = small;
    small >>= distance;
    small |= (small << distance) != all;
  }
  uint32_t sum;
  if (((a ^ b) & SIGN) == 0u) {
    sum = large + small;
    if (sum >= SIGN) {
      sum = (sum >> 1u) | (sum & 1u);
      exponent++;
      if (exponent == 255u) {
        return (a & SIGN) | INFINITY_BITS;
      }
    }
  } else {
    sum = large - small;
    if (sum == 0u) {
      return 0u;
    }
    while (sum < 0x00400000u && exponent > 8u) {
      sum <<= 8u;
      exponent -= 8u;
    }
    while (sum < 0x40000000u && exponent > 1u) {
      sum <<= 1u;
      exponent--;
    }
  }
  const uint32_t bits = (a & SIGN) | (((exponent - 1u) << 23u) + (sum >> 7u));
  return ROUNDED(bits, sum, 7u);
}

uint32_t __subsf3(uint32_t a, uint32_t b) { return __addsf3(a, b ^ SIGN); }

/* Return a product whose factors or result may not be normal numbers. */
static uint32_t multiply_rest(uint32_t a, uint32_t b) {
  const uint32_t sign = (a ^ b) & SIGN;
  a &= ~SIGN;
  b &= ~SIGN;
  if (a < b) {
    const uint32_t swapped = a;
    a = b;
    b = swapped;
  }
  if (a >= INFINITY_BITS) {
    return a > INFINITY_BITS || b == 0u ? NAN_BITS : sign | INFINITY_BITS;
  }
  if (b == 0u) {
    return sign;
  }
  int32_t exponent = (int32_t)(a >> 23u) + (int32_t)(b >> 23u) - 126;
  uint32_t left = (a << 8u) | SIGN;
  uint32_t right = (b << 8u) | SIGN;
  if (a < 0x00800000u) {
    return sign; /* The product of two subnormal numbers is less than half of the smallest subnormal. */
  }
  if (b < 0x00800000u) {
    right = b << 8u;
    exponent++;
    while (right < SIGN) {
      right <<= 1u;
      exponent--;
    }
  }
  const uint64_t product = (uint64_t)left * right;
  uint32_t significand = (uint32_t)(product >> 32u) | ((uint32_t)product != 0u);
  if (significand < SIGN) {
    significand = (uint32_t)(product >> 31u) | ((uint32_t)(product << 1u) != 0u);
    exponent--;
  }
  if (exponent >= 255) {
    return sign | INFINITY_BITS;
  }
  if (exponent <= 0) {
    const uint32_t shift = (uint32_t)(1 - exponent);
    if (shift > 31u) {
      return sign;
    }
    significand = (significand >> shift) | ((significand << (32u - shift)) != 0u);
    exponent = 1;
  }
  const uint32_t bits = sign | (((uint32_t)(exponent - 1) << 23u) + (significand >> 8u));
  return ROUNDED(bits, significand, 8u);
}

uint32_t __mulsf3(uint32_t a, uint32_t b) {
  const uint32_t first = (a << 1u) >> 24u;
  const uint32_t second = (b << 1u) >> 24u;
  uint32_t exponent = first + second - 127u;
  /* The fast path needs normal factors and a result that stays normal after rounding. */
  if (first - 1u >= 254u || second - 1u >= 254u || exponent - 1u >= 252u) {
    return multiply_rest(a, b);
  }
  const uint64_t product = (uint64_t)((a << 8u) | SIGN) * ((b << 8u) | SIGN);
  uint32_t significand = (uint32_t)(product >> 32u);
  uint32_t rest = (uint32_t)product;
  if (significand >= SIGN) {
    exponent++;
  } else {
    significand = (significand << 1u) | (rest >> 31u);
    rest <<= 1u;
  }
  significand |= rest != 0u;
  const uint32_t bits = ((a ^ b) & SIGN) | (((exponent - 1u) << 23u) + (significand >> 8u));
  return ROUNDED(bits, significand, 8u);
}
