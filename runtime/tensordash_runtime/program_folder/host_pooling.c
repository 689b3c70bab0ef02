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

/* Returns the first largest value of a window, and its index in the plain tensor in `place`. */
static float largest(const uint8_t *memory, struct cursor *x, const struct pool *pool, uint32_t plane, uint32_t row,
                     uint32_t column, uint32_t *place) {
  float best = 0.0f;
  int is_found = 0;
  for (uint32_t ky = 0; ky < pool->kernel[0]; ky++) {
    /* A negative index wraps, so it is also beyond the size. */
    uint32_t y = row * pool->stride[0] + ky - pool->padding[0];
    uint32_t c = column * pool->stride[1] - pool->padding[1];
    if (y >= pool->size[0]) continue;
    int is_inside = 0;
    for (uint32_t kx = 0; kx < pool->kernel[1]; kx++, c++) {
      if (c >= pool->size[1]) continue;
      if (!is_inside) seek(x, (plane * pool->size[0] + y) * pool->size[1] + c);
      is_inside = 1;
      uint32_t flat = x->flat;
      float value = load_next(memory, x);
      if (!is_found || value > best) {
        best = value;
        *place = flat;
      }
      is_found = 1;
    }
  }
  return best;
}

static void max_pool(uint8_t *memory, const struct host_call *call) {
  const struct tensor *result = &TENSORS[call->tensors[1]];
  struct cursor x = open_cursor(&TENSORS[call->tensors[0]], 1), to = open_cursor(result, 1);
  struct pool pool = pool_of(call);
  uint32_t place = 0;
  for (uint32_t plane = 0; plane < pool.planes; plane++)
    for (uint32_t row = 0; row < pool.out[0]; row++)
      for (uint32_t column = 0; column < pool.out[1]; column++, advance(&to))
        store_at(memory, result, to.index, largest(memory, &x, &pool, plane, row, column, &place));
}

/* Returns the first window along an axis that includes an index. */
static uint32_t first_window(uint32_t index, uint32_t kernel, uint32_t stride) {
  return index < kernel ? 0 : (index - kernel) / stride + 1;
}

/* Adds the gradient of each window to its largest value. The result is FP32, or each value has at most one window. */
static void add_window_gradients(uint8_t *memory, const struct host_call *call, const struct pool *pool) {
  const struct tensor *result = &TENSORS[call->tensors[2]];
  struct cursor x = open_cursor(&TENSORS[call->tensors[1]], 1);
  struct cursor gradient = open_cursor(&TENSORS[call->tensors[0]], 1);
  for (uint32_t plane = 0; plane < pool->planes; plane++)
    for (uint32_t row = 0; row < pool->out[0]; row++)
      for (uint32_t column = 0; column < pool->out[1]; column++) {
        uint32_t place = 0;
        largest(memory, &x, pool, plane, row, column, &place);
        uint32_t index = locate(result, place);
        store_at(memory, result, index, load_at(memory, result, index) + load_next(memory, &gradient));
      }
}

static void max_pool_backward(uint8_t *memory, const struct host_call *call) {
  const struct tensor *gradient = &TENSORS[call->tensors[0]], *result = &TENSORS[call->tensors[2]];
  struct pool pool = pool_of(call);
  if (result->format == FP32 || (pool.stride[0] >= pool.kernel[0] && pool.stride[1] >= pool.kernel[1])) {
    add_window_gradients(memory, call, &pool);
    return;
  }
  struct cursor x = open_cursor(&TENSORS[call->tensors[1]], 1);
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
            largest(memory, &x, &pool, plane, row, column, &place);
            if (place == flat) total = total + load(memory, gradient, window);
          }
        }
        store_at(memory, result, locate(result, flat), total);
      }
    }
  }
}
