/* Driver of tensordash_core; see tensordash_driver.h. */
#include "tensordash_driver.h"

#define MAX_PLACES 32768u
#define CAUSES (TENSORDASH_REGISTER_CAUSE_END_MASK | TENSORDASH_REGISTER_CAUSE_ERROR_MASK)
#define PAGE_MASK 0xfffu
#define ADDRESS_MASK (UINT64_MAX >> (64u - TENSORDASH_ADDRESS_BITS))

static uint32_t read_register(const tensordash_device *device, uint32_t offset) {
  const tensordash_port *port = &device->port;
  return (port->read != NULL) ? port->read(port->context, offset) : port->base[offset / 4u];
}

static void write_register(const tensordash_device *device, uint32_t offset, uint32_t value) {
  const tensordash_port *port = &device->port;
  if (port->write != NULL) {
    port->write(port->context, offset, value);
  } else {
    port->base[offset / 4u] = value;
  }
}

/* Write a 64-bit register, whose high half follows its low half. */
static void write_address(const tensordash_device *device, uint32_t offset, uint64_t value) {
  write_register(device, offset, (uint32_t)(value & 0xffffffffu));
  write_register(device, offset + 4u, (uint32_t)(value >> 32u));
}

static uint32_t now(tensordash_device *device) {
  const tensordash_port *port = &device->port;
  device->calls++;
  return (port->now != NULL) ? port->now(port->context) : device->calls;
}

static uint32_t status(const tensordash_device *device) {
  return read_register(device, TENSORDASH_REGISTER_STATUS);
}

tensordash_status tensordash_open(tensordash_device *device, const tensordash_port *port, uint32_t limit) {
  if ((device == NULL) || (port == NULL) || ((port->base == NULL) && ((port->read == NULL) || (port->write == NULL)))) {
    return TENSORDASH_BAD_ARGUMENT;
  }
  device->port = *port;
  device->ring = NULL;
  device->places = 0u;
  device->tail = 0u;
  device->calls = 0u;
  device->watchdog = 0u;
  if (read_register(device, TENSORDASH_REGISTER_IDENTITY) != TENSORDASH_IDENTITY_VALUE) {
    return TENSORDASH_NO_CORE;
  }
  if ((read_register(device, TENSORDASH_REGISTER_DIGEST) != (uint32_t)(TENSORDASH_DIGEST & 0xffffffffu)) ||
      (read_register(device, TENSORDASH_REGISTER_DIGEST_HIGH) != (uint32_t)(TENSORDASH_DIGEST >> 32u))) {
    return TENSORDASH_OTHER_CORE;
  }
  return tensordash_reset(device, limit);
}

tensordash_status tensordash_reset(tensordash_device *device, uint32_t limit) {
  device->places = 0u;
  device->tail = 0u;
  write_register(device, TENSORDASH_REGISTER_CONTROL, TENSORDASH_REGISTER_CONTROL_RESET_MASK);
  const uint32_t began = now(device);
  while ((status(device) & TENSORDASH_REGISTER_STATUS_RESETTING_MASK) != 0u) {
    if ((now(device) - began) >= limit) {
      return TENSORDASH_TIMEOUT;
    }
  }
  return TENSORDASH_OK;
}

tensordash_status tensordash_restrict(tensordash_device *device, uint64_t base, uint64_t limit) {
  if (((base & PAGE_MASK) != 0u) || ((limit & PAGE_MASK) != PAGE_MASK) || (base > limit) || (limit > ADDRESS_MASK)) {
    return TENSORDASH_BAD_ARGUMENT;
  }
  if ((status(device) & TENSORDASH_REGISTER_STATUS_BUSY_MASK) != 0u) {
    return TENSORDASH_BUSY;
  }
  write_address(device, TENSORDASH_REGISTER_BOUNDS_BASE, base);
  write_address(device, TENSORDASH_REGISTER_BOUNDS_LIMIT, limit);
  return TENSORDASH_OK;
}

/* Reset an idle core, and set its ring, whose size is `places` rounded up to a power of two. */
static tensordash_status set_ring(
    tensordash_device *device, uint32_t *ring, uint64_t address, uint32_t places, uint32_t limit) {
  if ((ring == NULL) || (places == 0u) || (places > MAX_PLACES) ||
      ((address % TENSORDASH_DESCRIPTOR_BYTES) != 0u) ||
      ((address > ADDRESS_MASK) || ((places * UINT64_C(64)) - 1u > (ADDRESS_MASK - address)))) {
    return TENSORDASH_BAD_ARGUMENT;
  }
  if ((status(device) & TENSORDASH_REGISTER_STATUS_BUSY_MASK) != 0u) {
    return TENSORDASH_BUSY;
  }
  const tensordash_status done = tensordash_reset(device, limit);
  if (done != TENSORDASH_OK) {
    return done;
  }
  uint32_t log2 = 0u;
  while ((UINT32_C(1) << log2) < places) {
    log2++;
  }
  device->ring = ring;
  device->places = UINT32_C(1) << log2;
  write_address(device, TENSORDASH_REGISTER_QUEUE_BASE, address);
  write_register(device, TENSORDASH_REGISTER_QUEUE_SIZE, log2);
  write_register(device, TENSORDASH_REGISTER_INTERRUPT_ENABLE, (device->port.sleep != NULL) ? CAUSES : 0u);
  write_register(device, TENSORDASH_REGISTER_CONTROL, TENSORDASH_REGISTER_CONTROL_ENABLE_MASK);
  return TENSORDASH_OK;
}

tensordash_status tensordash_set_ring(
    tensordash_device *device, uint32_t *ring, uint64_t address, uint32_t places, uint32_t limit) {
  if ((places & (places - 1u)) != 0u) {
    return TENSORDASH_BAD_ARGUMENT;
  }
  return set_ring(device, ring, address, places, limit);
}

/* Let the core execute `count` new descriptors in the ring. */
static void advance(tensordash_device *device, uint32_t count) {
  device->tail += count;
  write_register(device, TENSORDASH_REGISTER_TAIL, device->tail);
}

tensordash_status tensordash_submit(tensordash_device *device, const uint32_t *descriptors, uint32_t count) {
  if (descriptors == NULL) {
    return TENSORDASH_BAD_ARGUMENT;
  }
  if (device->places == 0u) {
    return TENSORDASH_NOT_READY;
  }
  if ((status(device) & TENSORDASH_REGISTER_STATUS_FAILED_MASK) != 0u) {
    return TENSORDASH_FAILED;
  }
  /* Do not overwrite descriptors that are not done: `tensordash_read_fault` reads them after an error. */
  const uint32_t pending = device->tail - read_register(device, TENSORDASH_REGISTER_DONE);
  if (count > (device->places - pending)) {
    return TENSORDASH_FULL;
  }
  for (uint32_t k = 0u; k < count; k++) {
    const uint32_t place = ((device->tail + k) & (device->places - 1u)) * TENSORDASH_DESCRIPTOR_WORDS;
    for (uint32_t word = 0u; word < TENSORDASH_DESCRIPTOR_WORDS; word++) {
      device->ring[place + word] = descriptors[(k * TENSORDASH_DESCRIPTOR_WORDS) + word];
    }
    tensordash_publish(device, &device->ring[place], TENSORDASH_DESCRIPTOR_BYTES);
  }
  advance(device, count);
  return TENSORDASH_OK;
}

tensordash_status tensordash_start(
    tensordash_device *device, uint32_t *program, uint64_t address, uint32_t count, uint32_t limit) {
  const tensordash_status done = set_ring(device, program, address, count, limit);
  if (done == TENSORDASH_OK) {
    tensordash_publish(device, program, (size_t)count * TENSORDASH_DESCRIPTOR_BYTES);
    advance(device, count);
  }
  return done;
}

/* Return a sum that grows with every transfer on the bus and every step of the tile. */
static uint32_t progress(const tensordash_device *device) {
  write_register(device, TENSORDASH_REGISTER_SNAPSHOT, TENSORDASH_REGISTER_SNAPSHOT_TAKE_MASK);
  return read_register(device, TENSORDASH_REGISTER_DONE) + read_register(device, TENSORDASH_REGISTER_HEAD) +
         read_register(device, TENSORDASH_REGISTER_STEPS) + read_register(device, TENSORDASH_REGISTER_READ_BEATS) +
         read_register(device, TENSORDASH_REGISTER_WRITE_BEATS);
}

tensordash_status tensordash_wait(tensordash_device *device, uint32_t limit) {
  const uint32_t began = now(device);
  uint32_t checked = began;
  uint32_t last = 0u; /* previous `progress`; the first value differs from 0 if the core has done anything */
  for (;;) {
    /* Acknowledge first, so that a cause that is set after the reads below ends the sleep. */
    if (device->port.sleep != NULL) {
      (void)tensordash_acknowledge(device);
    }
    if ((status(device) & TENSORDASH_REGISTER_STATUS_FAILED_MASK) != 0u) {
      return TENSORDASH_FAILED;
    }
    if (read_register(device, TENSORDASH_REGISTER_DONE) == device->tail) {
      return TENSORDASH_OK;
    }
    const uint32_t time = now(device);
    if ((time - began) >= limit) {
      return TENSORDASH_TIMEOUT;
    }
    if ((device->watchdog != 0u) && ((time - checked) >= device->watchdog)) {
      const uint32_t reached = progress(device);
      if (reached == last) {
        return TENSORDASH_SILENT;
      }
      last = reached;
      checked = time;
    }
    if (device->port.sleep != NULL) {
      device->port.sleep(device->port.context);
    }
  }
}

uint32_t tensordash_acknowledge(tensordash_device *device) {
  const uint32_t causes = read_register(device, TENSORDASH_REGISTER_CAUSE);
  if (causes != 0u) {
    write_register(device, TENSORDASH_REGISTER_CAUSE, causes);
  }
  return causes;
}

void tensordash_count(tensordash_device *device, tensordash_counts *counts, bool clear) {
  write_register(device, TENSORDASH_REGISTER_SNAPSHOT,
                 TENSORDASH_REGISTER_SNAPSHOT_TAKE_MASK | (clear ? TENSORDASH_REGISTER_SNAPSHOT_CLEAR_MASK : 0u));
#define READ_COUNTER(NAME, name) counts->name = read_register(device, TENSORDASH_REGISTER_##NAME);
  TENSORDASH_COUNTERS(READ_COUNTER)
#undef READ_COUNTER
}

void tensordash_publish(tensordash_device *device, const volatile void *start, size_t bytes) {
  if (device->port.publish != NULL) {
    device->port.publish(device->port.context, start, bytes);
  }
}

void tensordash_acquire(tensordash_device *device, const volatile void *start, size_t bytes) {
  if (device->port.acquire != NULL) {
    device->port.acquire(device->port.context, start, bytes);
  }
}

/* Tables for the description of errors, from the lists in tensordash.h. */
static const struct {
  const char *name;
  uint32_t allowed[TENSORDASH_DESCRIPTOR_WORDS];
} operations[] = {
#define OPERATION_ROW(NAME, name, ...) [TENSORDASH_OPERATION_##NAME] = {#name, {__VA_ARGS__}},
    TENSORDASH_OPERATIONS(OPERATION_ROW)};

#define OPERATION_COUNT (sizeof operations / sizeof operations[0])

static const struct {
  uint16_t bit;
  uint16_t width;
  uint16_t operation;
  uint16_t least;
  uint16_t greatest;
  const char *name;
} limited_fields[] = {
#define FIELD_ROW(OPERATION, FIELD, name, least, greatest)                                          \
  {TENSORDASH_##OPERATION##_##FIELD##_BIT, TENSORDASH_##OPERATION##_##FIELD##_WIDTH, TENSORDASH_OPERATION_##OPERATION, \
   (least), (greatest), #name},
    TENSORDASH_LIMITED_FIELDS(FIELD_ROW)};

#define LIMITED_FIELD_COUNT (sizeof limited_fields / sizeof limited_fields[0])

static const char *const error_names[] = {
#define ERROR_ROW(NAME, name) [TENSORDASH_ERROR_CODE_##NAME] = #name,
    TENSORDASH_ERRORS(ERROR_ROW)};

#define ERROR_COUNT (sizeof error_names / sizeof error_names[0])

/* Return the lowest reserved bit that is set. */
static uint32_t reserved_bit(const uint32_t *descriptor, uint32_t operation) {
  uint32_t bit = 0u;
  while ((bit < (8u * TENSORDASH_DESCRIPTOR_BYTES)) &&
         (((descriptor[bit / 32u] & ~operations[operation].allowed[bit / 32u]) >> (bit % 32u) & 1u) == 0u)) {
    bit++;
  }
  return bit;
}

/* Return the field of a multiply that is illegal with `skip_masked`; see error `field` in docs/core.md. */
static const char *unaligned_field(const uint32_t *descriptor) {
  static const struct {
    uint32_t bit;
    const char *name;
  } places[] = {{TENSORDASH_MULTIPLY_X_BIT, "x"},
                {TENSORDASH_MULTIPLY_X_0_BIT, "x_0"},
                {TENSORDASH_MULTIPLY_X_1_BIT, "x_1"},
                {TENSORDASH_MULTIPLY_X_2_BIT, "x_2"},
                {TENSORDASH_MULTIPLY_X_3_BIT, "x_3"}};
  if (TENSORDASH_GET(descriptor, MULTIPLY_STRIDE) != 1u) {
    return "stride";
  }
  for (size_t k = 0u; k < (sizeof places / sizeof places[0]); k++) {
    if ((tensordash_get(descriptor, places[k].bit, TENSORDASH_MULTIPLY_X_WIDTH) % TENSORDASH_LANES) != 0u) {
      return places[k].name;
    }
  }
  return "";
}

/* Return the field of a move or record that is illegal with the other fields; see error `field` in docs/core.md. Loads
 * and stores have the same fields, but only loads have `nvfp4`. A record has `memory` and `memory_high`. */
static const char *unfit_field(const uint32_t *descriptor, uint32_t operation) {
  const bool compressed = TENSORDASH_GET(descriptor, LOAD_COMPRESSED) != 0u;
  const bool nvfp4 = (operation == TENSORDASH_OPERATION_LOAD) && (TENSORDASH_GET(descriptor, LOAD_NVFP4) != 0u);
  uint32_t unit = compressed ? 16u : (nvfp4 ? (TENSORDASH_GROUP_BYTES / 2u) : TENSORDASH_GROUP_BYTES);
  const char *found = "";
  if (operation == TENSORDASH_OPERATION_RECORD) {
    unit = 32u;
  }
  if ((TENSORDASH_GET(descriptor, LOAD_MEMORY) % unit) != 0u) {
    found = "memory";
  } else if (TENSORDASH_GET(descriptor, LOAD_MEMORY_HIGH) > (uint32_t)(ADDRESS_MASK >> 32u)) {
    found = "memory_high";
  } else if (compressed && nvfp4) {
    found = "nvfp4";
  } else if (compressed && (TENSORDASH_GET(descriptor, LOAD_COUNT_1) != 1u)) {
    found = "count_1";
  } else if (compressed && (TENSORDASH_GET(descriptor, LOAD_COUNT_2) != 1u)) {
    found = "count_2";
  } else if (compressed && (TENSORDASH_GET(descriptor, LOAD_COUNT_3) != 1u)) {
    found = "count_3";
  } else if (compressed && ((TENSORDASH_GET(descriptor, LOAD_TABLE) % 4u) != 0u)) {
    found = "table";
  } else if (compressed && (TENSORDASH_GET(descriptor, LOAD_TABLE_HIGH) > (uint32_t)(ADDRESS_MASK >> 32u))) {
    found = "table_high";
  } else if (compressed && (TENSORDASH_GET(descriptor, LOAD_SEGMENT) == 0u)) {
    found = "segment";
  } else {
    /* The host has changed the descriptor since the core read it. */
  }
  return found;
}

static const char *wrong_field(const uint32_t *descriptor, uint32_t operation) {
  for (size_t k = 0u; k < LIMITED_FIELD_COUNT; k++) {
    if (limited_fields[k].operation == operation) {
      const uint32_t value = tensordash_get(descriptor, limited_fields[k].bit, limited_fields[k].width);
      if ((value < limited_fields[k].least) || (value > limited_fields[k].greatest)) {
        return limited_fields[k].name;
      }
    }
  }
  return (operation == TENSORDASH_OPERATION_MULTIPLY) ? unaligned_field(descriptor)
                                                      : unfit_field(descriptor, operation);
}

/* Set the field or the bit that causes an error of this code. */
static void describe(tensordash_fault *fault, const uint32_t *descriptor, uint32_t operation) {
  switch (fault->code) {
    case TENSORDASH_ERROR_CODE_OPERATION:
      fault->field = "operation";
      break;
    case TENSORDASH_ERROR_CODE_RESERVED:
      fault->bit = reserved_bit(descriptor, operation);
      break;
    case TENSORDASH_ERROR_CODE_FIELD:
      fault->field = wrong_field(descriptor, operation);
      break;
    case TENSORDASH_ERROR_CODE_TOKENS:
      fault->field = "wait";
      break;
    case TENSORDASH_ERROR_CODE_RANGE:
    case TENSORDASH_ERROR_CODE_ADDRESS:
      fault->field = "address";
      break;
    case TENSORDASH_ERROR_CODE_COMPRESSED:
      fault->field = "table";
      break;
    case TENSORDASH_ERROR_CODE_READ:
    case TENSORDASH_ERROR_CODE_WRITE:
    case TENSORDASH_ERROR_CODE_BOUNDS:
      fault->field = "memory";
      break;
    default: /* `fetch`: the ring itself */
      break;
  }
}

tensordash_status tensordash_read_fault(tensordash_device *device, tensordash_fault *fault) {
  const tensordash_fault none = {0u, 0u, "", "", "", 0u, NULL};
  uint32_t copy[TENSORDASH_DESCRIPTOR_WORDS];
  *fault = none;
  fault->code = read_register(device, TENSORDASH_REGISTER_ERROR) & TENSORDASH_REGISTER_ERROR_CODE_MASK;
  if (fault->code == 0u) {
    return TENSORDASH_OK;
  }
  fault->index = read_register(device, TENSORDASH_REGISTER_ERROR_INDEX);
  if (fault->code < ERROR_COUNT) {
    fault->error = error_names[fault->code];
  }
  if ((device->places != 0u) && (fault->code != TENSORDASH_ERROR_CODE_FETCH)) {
    fault->descriptor = &device->ring[(fault->index & (device->places - 1u)) * TENSORDASH_DESCRIPTOR_WORDS];
    for (uint32_t word = 0u; word < TENSORDASH_DESCRIPTOR_WORDS; word++) {
      copy[word] = fault->descriptor[word];
    }
    const uint32_t operation = TENSORDASH_GET(copy, HEADER_OPERATION);
    const bool known = (operation < OPERATION_COUNT) && (operations[operation].name != NULL);
    fault->operation = known ? operations[operation].name : "";
    if (known || (fault->code == TENSORDASH_ERROR_CODE_OPERATION)) {
      describe(fault, copy, operation);
    }
  }
  return TENSORDASH_FAILED;
}
