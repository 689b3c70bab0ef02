/* For each function, a mask of the tensors to clear before the call. */
static const uint8_t WRITTEN[] = {
    [CONVERT] = 2, [RELU] = 2, [RELU_BACKWARD] = 4, [SUM_CHANNELS] = 2, [SOFTMAX_CROSS_ENTROPY] = 24,
    [MAX_POOL] = 2, [MAX_POOL_BACKWARD] = 4, [MEAN_PLANE] = 2, [SPREAD_MEAN] = 2, [ADD] = 4, [GELU] = 2,
    [GELU_BACKWARD] = 4, [NORMALIZE] = 32, [NORMALIZE_BACKWARD] = 32, [UPDATE_SCALE] = 0,
};

static const char *const NAMES[] = {
    [CONVERT] = "convert", [RELU] = "relu", [RELU_BACKWARD] = "relu_backward", [SUM_CHANNELS] = "sum_channels",
    [SOFTMAX_CROSS_ENTROPY] = "softmax_cross_entropy", [MAX_POOL] = "max_pool",
    [MAX_POOL_BACKWARD] = "max_pool_backward", [MEAN_PLANE] = "mean_plane", [SPREAD_MEAN] = "spread_mean", [ADD] = "add",
    [GELU] = "gelu", [GELU_BACKWARD] = "gelu_backward", [COMPUTE_STATISTICS] = "compute_statistics",
    [NORMALIZE] = "normalize", [NORMALIZE_SUMS] = "normalize_sums", [NORMALIZE_BACKWARD] = "normalize_backward",
    [SGD] = "sgd", [ADAMW] = "adamw", [UPDATE_CORRECTIONS] = "update_corrections", [FIND_OVERFLOW] = "find_overflow",
    [UPDATE_SCALE] = "update_scale",
};

const char *tensordash_host_function(uint32_t index) { return NAMES[HOST_CALLS[index].function]; }

void tensordash_host_call(uint32_t index, uint8_t *memory) {
  const struct host_call *call = &HOST_CALLS[index];
  for (int k = 0; k < MAX_TENSORS; k++)
    if (WRITTEN[call->function] >> k & 1) clear(memory, &TENSORS[call->tensors[k]]);
  switch (call->function) {
    case SUM_CHANNELS: sum_channels(memory, call); break;
    case SOFTMAX_CROSS_ENTROPY: softmax_cross_entropy(memory, call); break;
    case MAX_POOL: max_pool(memory, call); break;
    case MAX_POOL_BACKWARD: max_pool_backward(memory, call); break;
    case MEAN_PLANE: mean_plane(memory, call); break;
    case SPREAD_MEAN: spread_mean(memory, call); break;
    case COMPUTE_STATISTICS: compute_statistics(memory, call); break;
    case NORMALIZE: normalize(memory, call); break;
    case NORMALIZE_SUMS: normalize_sums(memory, call); break;
    case NORMALIZE_BACKWARD: normalize_backward(memory, call); break;
    case ADAMW: adamw(memory, call); break;
    case UPDATE_CORRECTIONS: update_corrections(memory, call); break;
    case FIND_OVERFLOW: find_overflow(memory, call); break;
    case UPDATE_SCALE: update_scale(memory, call); break;
    case SGD: sgd(memory, call); break;
    case CONVERT: compute_elements(memory, call); break;
    case RELU: compute_elements(memory, call); break;
    case RELU_BACKWARD: compute_elements(memory, call); break;
    case ADD: compute_elements(memory, call); break;
    case GELU: compute_elements(memory, call); break;
    case GELU_BACKWARD: compute_elements(memory, call); break;
  }
}
