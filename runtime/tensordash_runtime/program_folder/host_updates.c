/* Returns whether a gradient was not finite: tensor `role` of the call is not NONE, and its value is not 0. */
static int is_skipped(const uint8_t *memory, const struct host_call *call, int role) {
  return call->tensors[role] != NONE && load_at(memory, &TENSORS[call->tensors[role]], 0) != 0.0f;
}

/* parameters: rate, momentum, decay, gradient_scale */
static void sgd(uint8_t *memory, const struct host_call *call) {
  if (is_skipped(memory, call, 4)) return;
  int has_velocity = call->tensors[2] != NONE;
  float rate = from_bits(call->parameters[0]), momentum = from_bits(call->parameters[1]);
  float decay = from_bits(call->parameters[2]), scale = from_bits(call->parameters[3]);
  if (call->tensors[3] != NONE) scale = scale / load_at(memory, &TENSORS[call->tensors[3]], 0);
  struct cursor parameter = open_cursor(&TENSORS[call->tensors[0]], 1);
  struct cursor gradient = open_cursor(&TENSORS[call->tensors[1]], 1), velocity = parameter;
  if (has_velocity) velocity = open_cursor(&TENSORS[call->tensors[2]], 1);
  for (uint32_t k = 0; k < parameter.tensor->size; k++, advance(&parameter)) {
    float x = load_at(memory, parameter.tensor, parameter.index);
    float step = load_next(memory, &gradient) * scale;
    if (decay != 0.0f) step = step + decay * x;
    if (has_velocity) {
      step = momentum * load_at(memory, velocity.tensor, velocity.index) + step;
      store_at(memory, velocity.tensor, velocity.index, step);
      advance(&velocity);
    }
    store_at(memory, parameter.tensor, parameter.index, x - rate * step);
  }
}

/* parameters: rate, keep, beta1_rest, beta2, beta2_rest, epsilon, gradient_scale */
static void adamw(uint8_t *memory, const struct host_call *call) {
  const struct tensor *parameter = &TENSORS[call->tensors[0]], *gradient = &TENSORS[call->tensors[1]];
  const struct tensor *firsts = &TENSORS[call->tensors[2]], *seconds = &TENSORS[call->tensors[3]];
  const struct tensor *corrections = &TENSORS[call->tensors[4]];
  if (is_skipped(memory, call, 6)) return;
  float p[7];
  for (int k = 0; k < 7; k++) p[k] = from_bits(call->parameters[k]);
  if (call->tensors[5] != NONE) p[6] = p[6] / load_at(memory, &TENSORS[call->tensors[5]], 0);
  float rate = p[0] / load_at(memory, corrections, 0), root = square_root(load_at(memory, corrections, 1));
  for (uint32_t k = 0; k < parameter->size; k++) {
    float step = load(memory, gradient, k) * p[6];
    float first = load_at(memory, firsts, k), second = load_at(memory, seconds, k);
    float gain = p[4] * step, kept = p[3] * second;
    first = first + p[2] * (step - first);
    second = kept + gain * step;
    float direction = first / (square_root(second) / root + p[5]), moved = rate * direction;
    store_at(memory, firsts, k, first);
    store_at(memory, seconds, k, second);
    store_at(memory, parameter, k, p[1] * load_at(memory, parameter, k) - moved);
  }
}

/* parameters: beta1, beta1_rest, beta2, beta2_rest */
static void update_corrections(uint8_t *memory, const struct host_call *call) {
  const struct tensor *corrections = &TENSORS[call->tensors[0]];
  if (is_skipped(memory, call, 1)) return;
  for (uint32_t k = 0; k < 2; k++) {
    float beta = from_bits(call->parameters[2 * k]), rest = from_bits(call->parameters[2 * k + 1]);
    store_at(memory, corrections, k, beta * load_at(memory, corrections, k) + rest);
  }
}

/* parameters: is_first */
static void find_overflow(uint8_t *memory, const struct host_call *call) {
  const struct tensor *gradient = &TENSORS[call->tensors[0]], *overflow = &TENSORS[call->tensors[1]];
  float found = call->parameters[0] ? 0.0f : load_at(memory, overflow, 0);
  for (uint32_t k = 0; k < gradient->size; k++)
    if ((to_bits(load(memory, gradient, k)) & 0x7fffffffu) >= 0x7f800000u) found = 1.0f;
  store_at(memory, overflow, 0, found);
}

/* parameters: growth, backoff, interval */
static void update_scale(uint8_t *memory, const struct host_call *call) {
  const struct tensor *scale = &TENSORS[call->tensors[0]], *good_steps = &TENSORS[call->tensors[1]];
  float before = load_at(memory, scale, 0);
  uint32_t steps = to_bits(load_at(memory, good_steps, 0)) + 1;
  if (is_skipped(memory, call, 2)) {
    store_at(memory, scale, 0, before * from_bits(call->parameters[1]));
    steps = 0;
  } else if (steps >= call->parameters[2]) {
    float grown = before * from_bits(call->parameters[0]);
    if (to_bits(grown) < 0x7f800000u) store_at(memory, scale, 0, grown);
    steps = 0;
  }
  store_at(memory, good_steps, 0, from_bits(steps));
}
