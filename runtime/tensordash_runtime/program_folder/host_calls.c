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
  uint16_t groups; /* index of its order in GROUPS, or PLAIN */
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

struct host_call {
  uint16_t function;
  uint16_t tensors[MAX_TENSORS];
  uint32_t parameters[MAX_PARAMETERS]; /* integers, or bits of floats */
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

/* Rounds a number to the operand format, to nearest, ties to even. */
static uint32_t encode(float number) {
  uint32_t bits = to_bits(number), sign = bits >> 31 << (VALUE_BITS - 1), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return OPERAND_NAN;
  uint32_t field = magnitude >> 23;
  int exponent = field ? (int)field - 127 : -126;
  int unit = exponent - FRACTION_BITS < LEAST_EXPONENT ? LEAST_EXPONENT : exponent - FRACTION_BITS;
  int shift = unit - exponent + 23;
  if (shift > 24) return sign;
  uint32_t significand = (magnitude & 0x7fffffu) | (field ? 0x800000u : 0);
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
  if (!field && LEAST_EXPONENT > -127) { /* else the subnormal numbers are those of single precision */
    float small = (float)(int32_t)fraction * from_bits((uint32_t)(LEAST_EXPONENT + 127) << 23);
    return sign ? -small : small;
  }
  uint32_t exponent = (uint32_t)((int)field + LEAST_EXPONENT + FRACTION_BITS + 126);
  return from_bits(sign | exponent << 23 | fraction << (23 - FRACTION_BITS));
}

/* END FORMAT */

/* Returns the index in memory of a value in groups, by its outer index, channel and position. */
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

/* Returns the index in memory of a value, by its index in the plain tensor. */
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

/* Iterator over values with a stride in the plain tensor, which does not compute each index from scratch. */
struct cursor {
  const struct tensor *tensor;
  uint32_t flat;  /* index in the plain tensor */
  uint32_t index; /* index in memory */
  uint32_t stride;
  uint32_t run;  /* values along the dimension of this stride */
  uint32_t left; /* remaining values of this run, including this one */
  uint32_t lane; /* place in the group */
  uint32_t steps[LANES]; /* distance in memory from each place to the next value of the run */
};

static void seek(struct cursor *cursor, uint32_t flat) {
  uint32_t place = flat / cursor->stride % cursor->run;
  cursor->flat = flat;
  cursor->index = locate(cursor->tensor, flat);
  cursor->left = cursor->run - place;
  cursor->lane = place % LANES;
}

/* Returns a cursor at the first value. */
static struct cursor open_cursor(const struct tensor *tensor, uint32_t stride) {
  struct cursor cursor = {tensor, 0, 0, stride, 1, 1, 0, {0}};
  uint32_t step = 0, outer = 1;
  if (tensor->groups == PLAIN) {
    cursor.run = UINT32_MAX;
    step = stride;
  } else {
    const struct groups *groups = &GROUPS[tensor->groups];
    for (int k = 2; k >= 0; k--) {
      if (groups->outer[k].size > 1 && groups->outer[k].stride == stride) {
        cursor.run = groups->outer[k].size;
        step = group_index(tensor, outer, 0, 0);
      }
      outer *= groups->outer[k].size;
    }
    uint32_t is_channel = groups->channels.size > 1 && groups->channels.stride == stride;
    uint32_t is_position = groups->positions.size > 1 && groups->positions.stride == stride;
    if (is_channel || is_position) {
      cursor.run = is_channel ? groups->channels.size : groups->positions.size;
      for (uint32_t k = 0; k < LANES; k++)
        cursor.steps[k] = group_index(tensor, 0, is_channel * (k + 1), is_position * (k + 1)) -
                          group_index(tensor, 0, is_channel * k, is_position * k);
    }
  }
  if (step)
    for (int k = 0; k < LANES; k++) cursor.steps[k] = step;
  seek(&cursor, 0);
  return cursor;
}

static void advance(struct cursor *cursor) {
  cursor->flat += cursor->stride;
  if (--cursor->left == 0) {
    cursor->index = locate(cursor->tensor, cursor->flat);
    cursor->left = cursor->run;
    cursor->lane = 0;
    return;
  }
  cursor->index += cursor->steps[cursor->lane];
  cursor->lane = (cursor->lane + 1) % LANES;
}

static float load_next(const uint8_t *memory, struct cursor *cursor) {
  float number = load_at(memory, cursor->tensor, cursor->index);
  advance(cursor);
  return number;
}

/* Clears a tensor before it is written, so that padding in its groups is zero. */
static void clear(uint8_t *memory, const struct tensor *tensor) {
  uint32_t *words = (uint32_t *)(void *)(memory + tensor->offset);
  for (uint32_t k = 0; k < tensor->bytes / 4; k++) words[k] = 0;
}

/* MATH */

/* Computes an element-wise function of one or two values. */
static float compute_element(uint16_t function, float x, float y) {
  (void)y; /* Some programs have no function of two tensors. */
  switch (function) {
    case RELU: return x > 0.0f || is_nan(x) ? x : 0.0f;
    case RELU_BACKWARD: return y > 0.0f ? x : 0.0f;
    case ADD: return x + y;
    case GELU: return x * normal(x, 0);
    case GELU_BACKWARD: return x * gelu_slope(y);
    default: return x; /* CONVERT */
  }
}

/* Computes an element-wise function of one or two tensors; the last tensor is the result. */
static void compute_elements(uint8_t *memory, const struct host_call *call) {
  int has_second = call->tensors[2] != NONE;
  struct cursor x = open_cursor(&TENSORS[call->tensors[0]], 1), y = open_cursor(&TENSORS[call->tensors[1]], 1);
  struct cursor result = y;
  if (has_second) result = open_cursor(&TENSORS[call->tensors[2]], 1);
  for (uint32_t k = 0; k < x.tensor->size; k++) {
    float first = load_next(memory, &x), second = has_second ? load_next(memory, &y) : 0.0f;
    store_at(memory, result.tensor, result.index, compute_element(call->function, first, second));
    advance(&result);
  }
}

/* parameters: samples, channels, values of a channel in a sample */
static void sum_channels(uint8_t *memory, const struct host_call *call) {
  const struct tensor *gradient = &TENSORS[call->tensors[0]], *result = &TENSORS[call->tensors[1]];
  uint32_t samples = call->parameters[0], channels = call->parameters[1], plane = call->parameters[2];
  struct cursor from = open_cursor(gradient, plane == 1 ? channels : 1);
  for (uint32_t c = 0; c < channels; c++) {
    float total = 0.0f;
    for (uint32_t n = 0; n < samples; n++) {
      if (plane > 1 || n == 0) seek(&from, (n * channels + c) * plane);
      for (uint32_t k = 0; k < plane; k++) total = total + load_next(memory, &from);
    }
    store_at(memory, result, locate(result, c), total);
  }
}

/* parameters: samples, classes, gradient_scale; the third tensor is the dynamic scale, or NONE */
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
      float slope = (share - (c == label ? 1.0f : 0.0f)) * scale;
      store_at(memory, gradient, locate(gradient, n * classes + c), slope);
    }
    sum = sum + (logarithm(total) - chosen);
  }
  store_at(memory, loss, 0, sum / (float)(int32_t)samples);
}
