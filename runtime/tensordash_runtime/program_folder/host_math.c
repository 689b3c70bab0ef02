/* Returns the exponential of a number that is not positive. */
static float exponential(float x) {
  if (!(x >= -87.0f)) return is_nan(x) ? x : 0.0f;
  float scaled = x * 0x1.715476p+0f + 0.5f;
  int32_t power = (int32_t)scaled;
  if ((float)power > scaled) power--;
  float rest = x - (float)power * 0x1.62e4p-1f;
  rest = rest - (float)power * 0x1.7f7d1cp-20f;
  float total = 0x1.a01a02p-13f;
  total = total * rest + 0x1.6c16c2p-10f;
  total = total * rest + 0x1.111112p-7f;
  total = total * rest + 0x1.555556p-5f;
  total = total * rest + 0x1.555556p-3f;
  total = total * rest + 0.5f;
  total = total * rest + 1.0f;
  total = total * rest + 1.0f;
  return total * from_bits((uint32_t)(power + 127) << 23);
}

/* Returns the logarithm of a finite number of at least 1. */
static float logarithm(float x) {
  uint32_t bits = to_bits(x);
  if (!(x >= 1.0f) || bits >= 0x7f800000u) return from_bits(0x7fc00000u);
  uint32_t power = (bits - 0x3f3504f3u) >> 23;
  float significand = from_bits(bits - (power << 23));
  float quotient = (significand - 1.0f) / (significand + 1.0f);
  float square = quotient * quotient;
  float series = 0x1.c71c72p-4f;
  series = series * square + 0x1.24924ap-3f;
  series = series * square + 0x1.99999ap-3f;
  series = series * square + 0x1.555556p-2f;
  series = series * square;
  series = series * quotient + quotient;
  float exponent = (float)(int32_t)power;
  float low = exponent * 0x1.7f7d1cp-20f + 2.0f * series;
  return exponent * 0x1.62e4p-1f + low;
}

/* Returns the normal distribution at x, and its density in `density` if that is not null. */
static float normal(float x, float *density) {
  float each = exponential(x * -0.5f * x), size = x < 0.0f ? -x : x;
  float t = 1.0f / (1.0f + 0x1.da671p-3f * size);
  float tail = 0x1.0fb844p-1f;
  tail = tail * t + -0x1.7401c6p-1f;
  tail = tail * t + 0x1.6be1c6p-1f;
  tail = tail * t + -0x1.23531cp-3f;
  tail = tail * t + 0x1.04f20cp-3f;
  tail = tail * t * each;
  if (density) *density = each * 0x1.988454p-2f;
  return x < 0.0f ? tail : 1.0f - tail;
}

/* Returns the derivative of x * normal(x). */
static float gelu_slope(float x) {
  float density, share = normal(x, &density);
  return share + x * density;
}

/* Returns the correctly rounded square root. */
static float square_root(float x) {
  uint32_t bits = to_bits(x), root = 0;
  if (is_nan(x) || !(bits << 1) || bits == 0x7f800000u) return x;
  if (bits >> 31) return from_bits(0x7fc00000u);
  int exponent = (int)(bits >> 23) - 127;
  uint64_t rest = bits & 0x7fffffu;
  if (exponent == -127) {
    for (exponent = -126; !(rest >> 23); exponent--) rest <<= 1;
  } else {
    rest |= 0x800000u;
  }
  if (exponent & 1) {
    rest <<= 1;
    exponent--;
  }
  rest <<= 25; /* The root has 25 bits, and the last bit rounds. A root is never a tie. */
  for (uint32_t bit = UINT32_C(1) << 24; bit; bit >>= 1) {
    uint64_t step = ((uint64_t)root << 1 | bit) * bit;
    if (step <= rest) {
      rest -= step;
      root |= bit;
    }
  }
  return from_bits(((uint32_t)(exponent / 2 + 126) << 23) + (root >> 1) + (root & 1));
}
