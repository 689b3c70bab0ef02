enum format { FP32, INT32, OPERAND, SECOND_OPERAND };

struct dimension {
  uint32_t size;
  uint32_t stride; /* in the plain tensor */
};

struct groups {
  struct dimension outer[3];
  struct dimension channels;
  struct dimension positions;
  uint8_t is_turned;
};

struct tensor {
  uint32_t offset; /* bytes from the base */
  uint32_t bytes;
  uint32_t size; /* values */
  uint16_t format;
  uint16_t groups; /* index of its order, or PLAIN */
};

enum function {
  CONVERT,
  RELU,
  RELU_BACKWARD,
  SUM_CHANNELS,
  SOFTMAX_CROSS_ENTROPY,
  MAX_POOL,
  MAX_POOL_BACKWARD,
  MEAN_PLANE,
  SPREAD_MEAN,
  ADD,
  GELU,
  GELU_BACKWARD,
  COMPUTE_STATISTICS,
  NORMALIZE,
  NORMALIZE_SUMS,
  NORMALIZE_BACKWARD,
  SGD,
  ADAMW,
  UPDATE_CORRECTIONS,
  FIND_OVERFLOW,
  UPDATE_SCALE
};

#define PLAIN UINT16_MAX
#define NONE UINT16_MAX
#define MAX_TENSORS 7
#define MAX_PARAMETERS 10
#define ELEMENT_TENSORS 4 /* of element-wise functions */

struct host_call {
  uint16_t function;
  uint16_t tensors[MAX_TENSORS];
  uint32_t parameters[MAX_PARAMETERS]; /* integers, or bits of single precision */
};

/* TABLES */

static float from_bits(uint32_t bits) {
  float number;
  memcpy(&number, &bits, sizeof number);
  return number;
}

static uint32_t to_bits(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static int is_nan(float x) { return (to_bits(x) & 0x7fffffffu) > 0x7f800000u; }

/* FORMAT */

/* Rounds to the operand format, to nearest, ties to even. */
static uint32_t encode(float number) {
  uint32_t bits = to_bits(number), sign = bits >> 31 << (VALUE_BITS - 1), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return OPERAND_NAN;
  int exponent = (int)(magnitude >> 23) - 127;
  int unit = exponent - FRACTION_BITS < LEAST_EXPONENT ? LEAST_EXPONENT : exponent - FRACTION_BITS;
  int shift = unit - exponent + 23;
  if (shift > 24) return sign;
  uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  uint32_t rounded = significand >> shift, rest = significand & ((UINT32_C(1) << shift) - 1);
  uint32_t half = UINT32_C(1) << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1))) rounded++;
  uint32_t pattern = ((uint32_t)(unit - LEAST_EXPONENT) << FRACTION_BITS) + rounded;
  return sign | (pattern > LARGEST ? BEYOND : pattern);
}

static float decode(uint32_t pattern) {
  uint32_t sign = pattern >> (VALUE_BITS - 1) << 31, magnitude = pattern & ((UINT32_C(1) << (VALUE_BITS - 1)) - 1);
  uint32_t field = magnitude >> FRACTION_BITS, fraction = magnitude & ((UINT32_C(1) << FRACTION_BITS) - 1);
  if (magnitude > LARGEST) return from_bits(HAS_INFINITIES && !fraction ? sign | 0x7f800000u : 0x7fc00000u);
  if (!field) {
    float small = (float)(int32_t)fraction * from_bits((uint32_t)(LEAST_EXPONENT + 127) << 23);
    return sign ? -small : small;
  }
  uint32_t exponent = (uint32_t)((int)field - 1 + LEAST_EXPONENT + FRACTION_BITS + 127);
  return from_bits(sign | exponent << 23 | fraction << (23 - FRACTION_BITS));
}

/* END FORMAT */

/* Index in memory of a value in groups, by its outer index, channel and position. */
static uint32_t group_index(const struct tensor *tensor, uint32_t outer, uint32_t channel, uint32_t position) {
  const struct groups *groups = &GROUPS[tensor->groups];
  uint32_t down = (groups->channels.size + LANES - 1) / LANES, across = (groups->positions.size + LANES - 1) / LANES;
  uint32_t group = (outer * down + channel / LANES) * across + position / LANES;
  uint32_t c = channel % LANES, i = position % LANES;
  if (tensor->format >= OPERAND) return group * LANES * LANES + i * LANES + c;
  if (groups->is_turned) {
    uint32_t swapped = c;
    c = i;
    i = swapped;
  }
  return group * LANES * LANES + c / WORD_CHANNELS * WORD_CHANNELS * LANES + i * WORD_CHANNELS + c % WORD_CHANNELS;
}

static uint32_t index_along(struct dimension dimension, uint32_t flat) {
  return dimension.size == 1 ? 0 : flat / dimension.stride % dimension.size;
}

/* Index in memory of a value, by its index in the plain tensor. */
static uint32_t locate(const struct tensor *tensor, uint32_t flat) {
  if (tensor->groups == PLAIN) return flat;
  const struct groups *groups = &GROUPS[tensor->groups];
  uint32_t outer = 0;
  for (int k = 0; k < 3; k++) outer = outer * groups->outer[k].size + index_along(groups->outer[k], flat);
  return group_index(tensor, outer, index_along(groups->channels, flat), index_along(groups->positions, flat));
}

static float load_at(const uint8_t *memory, const struct tensor *tensor, uint32_t index) {
  const uint8_t *from = memory + tensor->offset;
  if (tensor->format >= OPERAND) {
    from += index * (VALUE_BITS / 8);
    return DECODE(tensor, VALUE_BITS == 8 ? from[0] : from[0] | (uint32_t)from[1] << 8);
  }
  return from_bits(((const uint32_t *)(const void *)from)[index]);
}

static void store_at(uint8_t *memory, const struct tensor *tensor, uint32_t index, float number) {
  uint8_t *to = memory + tensor->offset;
  if (tensor->format >= OPERAND) {
    uint32_t bits = ENCODE(tensor, number);
    to += index * (VALUE_BITS / 8);
    to[0] = (uint8_t)bits;
    if (VALUE_BITS == 16) to[1] = (uint8_t)(bits >> 8);
    return;
  }
  ((uint32_t *)(void *)to)[index] = is_nan(number) ? 0x7fc00000u : to_bits(number);
}

static float load(const uint8_t *memory, const struct tensor *tensor, uint32_t flat) {
  return load_at(memory, tensor, locate(tensor, flat));
}

/* Zeros what fills up the groups of a tensor that is written. */
static void clear(uint8_t *memory, const struct tensor *tensor) {
  for (uint32_t k = 0; k < tensor->bytes; k++) memory[tensor->offset + k] = 0;
}

/* MATH */

/* What the element-wise functions do with a value of each tensor. */
static void compute_element(uint8_t *memory, const struct host_call *call, const uint32_t *index) {
  const struct tensor *tensors[ELEMENT_TENSORS];
  for (int k = 0; k < ELEMENT_TENSORS; k++) tensors[k] = call->tensors[k] == NONE ? 0 : &TENSORS[call->tensors[k]];
  float x = load_at(memory, tensors[0], index[0]);
  switch (call->function) {
    case CONVERT: store_at(memory, tensors[1], index[1], x); break;
    case RELU: store_at(memory, tensors[1], index[1], x > 0.0f || is_nan(x) ? x : 0.0f); break;
    case RELU_BACKWARD: {
      float y = load_at(memory, tensors[1], index[1]);
      store_at(memory, tensors[2], index[2], y > 0.0f ? x : 0.0f);
      break;
    }
    case ADD: store_at(memory, tensors[2], index[2], x + load_at(memory, tensors[1], index[1])); break;
    case GELU: store_at(memory, tensors[1], index[1], x * normal(x, 0)); break;
    case GELU_BACKWARD: {
      float y = load_at(memory, tensors[1], index[1]), density, share = normal(y, &density);
      store_at(memory, tensors[2], index[2], x * (share + y * density));
      break;
    }
    default: { /* SGD */
      float rate = from_bits(call->parameters[0]), momentum = from_bits(call->parameters[1]);
      float decay = from_bits(call->parameters[2]), scale = from_bits(call->parameters[3]);
      if (tensors[3]) scale = scale / load_at(memory, tensors[3], 0);
      float step = load_at(memory, tensors[1], index[1]) * scale;
      if (decay != 0.0f) step = step + decay * x;
      if (tensors[2]) {
        step = momentum * load_at(memory, tensors[2], index[2]) + step;
        store_at(memory, tensors[2], index[2], step);
      }
      store_at(memory, tensors[0], index[0], x - rate * step);
    }
  }
}

/* Walks all values, in the order of the first tensor that is in groups. */
static void compute_elements(uint8_t *memory, const struct host_call *call) {
  uint16_t order = PLAIN;
  uint32_t index[ELEMENT_TENSORS] = {0};
  for (int k = ELEMENT_TENSORS - 1; k >= 0; k--)
    if (call->tensors[k] != NONE && TENSORS[call->tensors[k]].groups != PLAIN) order = TENSORS[call->tensors[k]].groups;
  if (order == PLAIN) {
    for (uint32_t flat = 0; flat < TENSORS[call->tensors[0]].size; flat++) {
      for (int k = 0; k < ELEMENT_TENSORS; k++) index[k] = flat;
      compute_element(memory, call, index);
    }
    return;
  }
  const struct groups *groups = &GROUPS[order];
  const struct dimension *outer = groups->outer;
  uint32_t count = outer[0].size * outer[1].size * outer[2].size;
  for (uint32_t o = 0; o < count; o++) {
    uint32_t begin = o % outer[2].size * outer[2].stride + o / outer[2].size % outer[1].size * outer[1].stride +
                     o / outer[2].size / outer[1].size * outer[0].stride;
    for (uint32_t c = 0; c < groups->channels.size; c++) {
      uint32_t flat = begin + c * groups->channels.stride;
      for (uint32_t i = 0; i < groups->positions.size; i++, flat += groups->positions.stride) {
        for (int k = 0; k < ELEMENT_TENSORS && call->tensors[k] != NONE; k++) {
          const struct tensor *tensor = &TENSORS[call->tensors[k]];
          index[k] = tensor->groups == PLAIN   ? flat
                     : tensor->groups == order ? group_index(tensor, o, c, i)
                                               : locate(tensor, flat);
        }
        compute_element(memory, call, index);
      }
    }
  }
}

/* parameters: samples, channels, values of a channel in a sample */
static void sum_channels(uint8_t *memory, const struct host_call *call) {
  const struct tensor *gradient = &TENSORS[call->tensors[0]], *result = &TENSORS[call->tensors[1]];
  uint32_t samples = call->parameters[0], channels = call->parameters[1], plane = call->parameters[2];
  for (uint32_t c = 0; c < channels; c++) {
    float total = 0.0f;
    for (uint32_t n = 0; n < samples; n++)
      for (uint32_t k = 0; k < plane; k++) total = total + load(memory, gradient, (n * channels + c) * plane + k);
    store_at(memory, result, locate(result, c), total);
  }
}

/* parameters: samples, classes, gradient_scale; the third tensor is the scale, if there is one */
static void softmax_cross_entropy(uint8_t *memory, const struct host_call *call) {
  const struct tensor *scores = &TENSORS[call->tensors[0]], *labels = &TENSORS[call->tensors[1]];
  const struct tensor *loss = &TENSORS[call->tensors[3]], *gradient = &TENSORS[call->tensors[4]];
  uint32_t samples = call->parameters[0], classes = call->parameters[1];
  float scale = from_bits(call->parameters[2]), sum = 0.0f;
  if (call->tensors[2] != NONE) scale = scale * load_at(memory, &TENSORS[call->tensors[2]], 0);
  for (uint32_t n = 0; n < samples; n++) {
    uint32_t label = to_bits(load_at(memory, labels, n));
    float peak = load(memory, scores, n * classes), total = 0.0f, chosen = from_bits(0x7fc00000u);
    for (uint32_t c = 1; c < classes; c++) {
      float score = load(memory, scores, n * classes + c);
      if (score > peak) peak = score;
    }
    for (uint32_t c = 0; c < classes; c++) {
      float difference = load(memory, scores, n * classes + c) - peak, each = exponential(difference);
      if (c == label) chosen = difference;
      total = c ? total + each : each;
    }
    for (uint32_t c = 0; c < classes; c++) {
      float share = exponential(load(memory, scores, n * classes + c) - peak) / total;
      float made = (share - (c == label ? 1.0f : 0.0f)) * scale;
      store_at(memory, gradient, locate(gradient, n * classes + c), made);
    }
    sum = sum + (logarithm(total) - chosen);
  }
  store_at(memory, loss, 0, sum / (float)(int32_t)samples);
}

/* parameters: kernel, stride and padding (rows, then columns), planes, rows, columns */
struct pool {
  uint32_t kernel[2], stride[2], padding[2], planes, size[2], out[2];
};

static struct pool pool_of(const struct host_call *call) {
  struct pool pool;
  const uint32_t *p = call->parameters;
  for (int k = 0; k < 2; k++) {
    pool.kernel[k] = p[k];
    pool.stride[k] = p[2 + k];
    pool.padding[k] = p[4 + k];
    pool.size[k] = p[7 + k];
    pool.out[k] = (p[7 + k] + 2 * p[4 + k] - p[k]) / p[2 + k] + 1;
  }
  pool.planes = p[6];
  return pool;
}

/* Returns the first largest value of a window; `place` becomes its index in the plane. */
static float largest(const uint8_t *memory, const struct tensor *x, const struct pool *pool, uint32_t plane,
                     uint32_t row, uint32_t column, uint32_t *place) {
  float best = 0.0f;
  int is_found = 0;
  for (uint32_t ky = 0; ky < pool->kernel[0]; ky++) {
    for (uint32_t kx = 0; kx < pool->kernel[1]; kx++) {
      /* An index before the first one wraps, and is beyond the size, too. */
      uint32_t y = row * pool->stride[0] + ky - pool->padding[0];
      uint32_t c = column * pool->stride[1] + kx - pool->padding[1];
      if (y >= pool->size[0] || c >= pool->size[1]) continue;
      float value = load(memory, x, (plane * pool->size[0] + y) * pool->size[1] + c);
      if (!is_found || value > best) {
        best = value;
        *place = y * pool->size[1] + c;
      }
      is_found = 1;
    }
  }
  return best;
}

static void max_pool(uint8_t *memory, const struct host_call *call) {
  const struct tensor *x = &TENSORS[call->tensors[0]], *result = &TENSORS[call->tensors[1]];
  struct pool pool = pool_of(call);
  uint32_t flat = 0, place = 0;
  for (uint32_t plane = 0; plane < pool.planes; plane++)
    for (uint32_t row = 0; row < pool.out[0]; row++)
      for (uint32_t column = 0; column < pool.out[1]; column++)
        store_at(memory, result, locate(result, flat++), largest(memory, x, &pool, plane, row, column, &place));
}

/* First window along an axis that has an index in it. */
static uint32_t first_window(uint32_t index, uint32_t kernel, uint32_t stride) {
  return index < kernel ? 0 : (index - kernel) / stride + 1;
}

static void max_pool_backward(uint8_t *memory, const struct host_call *call) {
  const struct tensor *gradient = &TENSORS[call->tensors[0]], *x = &TENSORS[call->tensors[1]];
  const struct tensor *result = &TENSORS[call->tensors[2]];
  struct pool pool = pool_of(call);
  uint32_t flat = 0;
  for (uint32_t plane = 0; plane < pool.planes; plane++) {
    for (uint32_t y = 0; y < pool.size[0]; y++) {
      for (uint32_t c = 0; c < pool.size[1]; c++, flat++) {
        float total = 0.0f;
        uint32_t padded_y = y + pool.padding[0], padded_c = c + pool.padding[1];
        uint32_t first = first_window(padded_c, pool.kernel[1], pool.stride[1]);
        for (uint32_t row = first_window(padded_y, pool.kernel[0], pool.stride[0]);
             row < pool.out[0] && row * pool.stride[0] <= padded_y; row++) {
          for (uint32_t column = first; column < pool.out[1] && column * pool.stride[1] <= padded_c; column++) {
            uint32_t place = 0, window = (plane * pool.out[0] + row) * pool.out[1] + column;
            largest(memory, x, &pool, plane, row, column, &place);
            if (place == y * pool.size[1] + c) total = total + load(memory, gradient, window);
          }
        }
        store_at(memory, result, locate(result, flat), total);
      }
    }
  }
}
