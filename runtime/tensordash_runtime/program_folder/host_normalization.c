/* parameters: planes, values of a plane */
static void mean_plane(uint8_t *memory, const struct host_call *call) {
  const struct tensor *x = &TENSORS[call->tensors[0]], *result = &TENSORS[call->tensors[1]];
  uint32_t planes = call->parameters[0], size = call->parameters[1], flat = 0;
  for (uint32_t plane = 0; plane < planes; plane++) {
    float total = 0.0f;
    for (uint32_t k = 0; k < size; k++) total = total + load(memory, x, flat++);
    store_at(memory, result, locate(result, plane), total / (float)(int32_t)size);
  }
}

static void spread_mean(uint8_t *memory, const struct host_call *call) {
  const struct tensor *gradient = &TENSORS[call->tensors[0]], *result = &TENSORS[call->tensors[1]];
  uint32_t planes = call->parameters[0], size = call->parameters[1], flat = 0;
  for (uint32_t plane = 0; plane < planes; plane++) {
    float share = load(memory, gradient, plane) / (float)(int32_t)size;
    for (uint32_t k = 0; k < size; k++, flat++) store_at(memory, result, locate(result, flat), share);
  }
}

/* parameters: samples, groups, plane, inner, size, then epsilon, momentum, keep and unbiased */
struct normalization {
  uint32_t samples, groups, plane, inner, size;
};

static struct normalization normalization_of(const struct host_call *call) {
  const uint32_t *p = call->parameters;
  struct normalization sizes = {p[0], p[1], p[2], p[3], p[4]};
  return sizes;
}

/* Returns the index in the plain tensor of value k of a group, in the order of samples and positions. */
static uint32_t value_index(const struct normalization *shape, uint32_t group, uint32_t k) {
  return (k / shape->plane * shape->groups + group) * shape->plane + k % shape->plane;
}

/* Updates a group's running statistic, tensor `role` of the call. */
static void update_running(uint8_t *memory, const struct host_call *call, int role, uint32_t group, float statistic) {
  const struct tensor *running = &TENSORS[call->tensors[role]];
  float momentum = from_bits(call->parameters[6]), keep = from_bits(call->parameters[7]);
  store_at(memory, running, group, keep * load_at(memory, running, group) + momentum * statistic);
}

static void compute_statistics(uint8_t *memory, const struct host_call *call) {
  const struct tensor *x = &TENSORS[call->tensors[0]];
  const struct tensor *means = &TENSORS[call->tensors[3]], *inverses = &TENSORS[call->tensors[4]];
  struct normalization shape = normalization_of(call);
  uint32_t count = shape.samples * shape.plane;
  for (uint32_t group = 0; group < shape.groups; group++) {
    float total = 0.0f, squares = 0.0f;
    for (uint32_t k = 0; k < count; k++) total = total + load(memory, x, value_index(&shape, group, k));
    float mean = total / (float)(int32_t)count;
    for (uint32_t k = 0; k < count; k++) {
      float difference = load(memory, x, value_index(&shape, group, k)) - mean;
      squares = squares + difference * difference;
    }
    float variance = squares / (float)(int32_t)count;
    store_at(memory, means, group, mean);
    store_at(memory, inverses, group, 1.0f / square_root(variance + from_bits(call->parameters[5])));
    if (call->tensors[1] == NONE) continue;
    update_running(memory, call, 1, group, mean);
    update_running(memory, call, 2, group, variance * from_bits(call->parameters[8]));
  }
}

/* Returns the normalized value `flat` of tensor `role` of the call; the next two tensors are means and inverses. */
static float normalized(const uint8_t *memory, const struct host_call *call, int role, uint32_t group, uint32_t flat) {
  const struct tensor *const first = &TENSORS[call->tensors[role + 1]], *second = &TENSORS[call->tensors[role + 2]];
  float difference = load(memory, &TENSORS[call->tensors[role]], flat) - load_at(memory, first, group);
  return difference * load_at(memory, second, group);
}

static void normalize(uint8_t *memory, const struct host_call *call) {
  const struct tensor *weights = &TENSORS[call->tensors[3]], *biases = &TENSORS[call->tensors[4]];
  const struct tensor *result = &TENSORS[call->tensors[5]];
  struct normalization shape = normalization_of(call);
  for (uint32_t flat = 0; flat < result->size; flat++) {
    uint32_t place = flat / shape.inner % shape.size;
    float scaled = normalized(memory, call, 0, flat / shape.plane % shape.groups, flat);
    scaled = scaled * load_at(memory, weights, place);
    store_at(memory, result, locate(result, flat), scaled + load_at(memory, biases, place));
  }
}

static void normalize_sums(uint8_t *memory, const struct host_call *call) {
  const struct tensor *gradient = &TENSORS[call->tensors[0]];
  const struct tensor *for_weight = &TENSORS[call->tensors[4]], *for_bias = &TENSORS[call->tensors[5]];
  struct normalization shape = normalization_of(call);
  uint32_t repeats = gradient->size / shape.size / shape.inner;
  for (uint32_t place = 0; place < shape.size; place++) {
    float weighted = 0.0f, total = 0.0f;
    for (uint32_t k = 0; k < repeats * shape.inner; k++) {
      uint32_t flat = (k / shape.inner * shape.size + place) * shape.inner + k % shape.inner;
      float each = load(memory, gradient, flat);
      weighted = weighted + each * normalized(memory, call, 1, flat / shape.plane % shape.groups, flat);
      total = total + each;
    }
    store_at(memory, for_weight, place, weighted);
    store_at(memory, for_bias, place, total);
  }
}

/* Returns the gradient by the normalized value `flat`. */
static float weighted_gradient(const uint8_t *memory, const struct host_call *call,
                               const struct normalization *shape, uint32_t flat) {
  float weight = load_at(memory, &TENSORS[call->tensors[4]], flat / shape->inner % shape->size);
  return load(memory, &TENSORS[call->tensors[0]], flat) * weight;
}

static void normalize_backward(uint8_t *memory, const struct host_call *call) {
  const struct tensor *result = &TENSORS[call->tensors[5]];
  struct normalization shape = normalization_of(call);
  uint32_t count = shape.samples * shape.plane;
  for (uint32_t group = 0; group < shape.groups; group++) {
    float total = 0.0f, weighted = 0.0f;
    float inverse = load_at(memory, &TENSORS[call->tensors[3]], group);
    for (uint32_t k = 0; k < count; k++) {
      uint32_t flat = value_index(&shape, group, k);
      float h = weighted_gradient(memory, call, &shape, flat);
      total = total + h;
      weighted = weighted + h * normalized(memory, call, 1, group, flat);
    }
    float mean = total / (float)(int32_t)count, share = weighted / (float)(int32_t)count;
    for (uint32_t k = 0; k < count; k++) {
      uint32_t flat = value_index(&shape, group, k);
      float h = weighted_gradient(memory, call, &shape, flat) - mean;
      h = h - normalized(memory, call, 1, group, flat) * share;
      store_at(memory, result, locate(result, flat), h * inverse);
    }
  }
}
