// Library that simulates a core's Verilog: Verilator's model, a memory at its AXI4 port, and access to its registers.
//
// verilated_core.py calls it by ctypes, once per program instead of once per cycle.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <unordered_set>
#include <vector>

#include "Vcore.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

namespace {

constexpr uint64_t PATIENCE = 100000;  // cycles after which an access of a register fails
enum Channel { AR, R, AW, W, B, CHANNELS };
constexpr int KINDS = 4;               // kinds of beats: the only, first, middle or last beat of a burst
constexpr int ERRORS = 2 * 2 * KINDS;  // counters of read errors by ID, response and kind; those of writes follow

struct Burst {
    uint64_t address;
    unsigned beats;
    unsigned number;  // its ID
    uint64_t ready_cycle;
    bool error = false;
    unsigned length = beats;
    int wrong = 0;  // kind of the first beat with an error
    int kind() const { return length == 1 ? 0 : beats == length ? 1 : beats == 1 ? 3 : 2; }
};

struct Device {
    VerilatedContext context;
    std::unique_ptr<Vcore> top;
    std::vector<uint8_t> memory;
    uint64_t base = 0;
    uint64_t cycle = 0;
    unsigned low = 1, high = 1;  // latency
    uint32_t pause = 0;          // probability times 2^32 that a channel pauses in a cycle
    uint64_t state = 1;
    bool unruly = false;         // reorder data of different IDs
    std::unordered_set<uint64_t> faults;  // lines that respond with an error
    std::deque<Burst> reads, writes, answers;
    size_t reading = 0;  // index of the read whose beat is offered
    struct Beat {
        std::vector<uint8_t> data;
        uint64_t strobe;
    };
    std::deque<Beat> beats;
#if VM_TRACE
    std::unique_ptr<VerilatedVcdC> waves;
    void draw(uint64_t half) {
        if (waves) waves->dump(2 * cycle + half);
    }
#else
    void draw(uint64_t) {}
#endif
    // Whether a beat or a response is offered to the core; an offer stays until the core accepts it.
    bool r_offered = false, b_offered = false;

    uint32_t random() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return static_cast<uint32_t>(state >> 32);
    }
    bool draw_ready() { return pause == 0 || random() >= pause; }
    uint64_t draw_cycle() { return cycle + low + (high > low ? random() % (high - low + 1) : 0); }
    size_t width() const { return sizeof(top->m_axi_rdata); }
    unsigned wrong() { return unruly ? 2 + (random() & 1) : 2; }
    // A channel on which the memory is silent (-1: none) after `silent_from` transfers, and the pending transfers.
    int silent = -1;
    uint64_t silent_from = 0, patience = 0;
    uint64_t moved[CHANNELS] = {};   // transfers since the last core_silence
    uint64_t waited[CHANNELS] = {};  // cycles for which the memory has owed a transfer
    uint64_t errors[ERRORS + 2 * KINDS] = {};
    bool responds(int channel) const { return silent != channel || moved[channel] < silent_from; }
    bool patient() const {
        for (uint64_t cycles : waited)
            if (patience != 0 && cycles > patience) return false;
        return true;
    }
    void owes(int channel, bool owed) { waited[channel] = owed ? waited[channel] + 1 : 0; }
    // State registers in the previous cycle, and state registers and bus when the last soft reset began.
    uint64_t before = 0, at_reset = 0;
    unsigned bus_at_reset = 0;
    unsigned bus() const {
        bool fetch = false, read = false, begun = false;
        for (const Burst& each : reads) {
            (each.number ? read : fetch) = true;
            begun |= each.beats != each.length;
        }
        const bool writing = !beats.empty() || (!writes.empty() && writes.front().beats != writes.front().length);
        return (top->m_axi_arvalid && !top->m_axi_arready) | fetch << 1 | read << 2 | begun << 3 |
               (top->m_axi_awvalid && !top->m_axi_awready) << 4 | (top->m_axi_wvalid && !top->m_axi_wready) << 5 |
               writing << 6 | !answers.empty() << 7;
    }
    void observe_reset() {
        if ((top->states & 1) && !(before & 1)) at_reset = before, bus_at_reset = bus();
        before = top->states;
    }

    bool is_accessible(uint64_t address, uint64_t bytes) const {
        return address >= base && bytes <= memory.size() && address - base <= memory.size() - bytes &&
               (faults.empty() || faults.count(address / width()) == 0);
    }
    // Choose the oldest burst, or with `unruly` the oldest of a random ID; return whether to offer its next beat.
    bool choose() {
        reading = 0;
        if (unruly && random() & 1)
            while (reading < reads.size() && reads[reading].number == reads.front().number) ++reading;
        if (reading == reads.size()) reading = 0;
        return reading < reads.size() && reads[reading].ready_cycle <= cycle && draw_ready();
    }

    void drive_memory() {
        if (!r_offered) {
            r_offered = responds(R) && choose();
            if (r_offered) {
                const Burst& burst = reads[reading];
                const bool good = is_accessible(burst.address, width());
                if (good) {
                    std::memcpy(&top->m_axi_rdata, &memory[burst.address - base], width());
                } else {
                    std::memset(&top->m_axi_rdata, 0x5a, width());
                }
                top->m_axi_rresp = good ? 0 : wrong();
                top->m_axi_rlast = burst.beats == 1;
                top->m_axi_rid = burst.number;
            }
        }
        top->m_axi_rvalid = r_offered;
        if (!b_offered) {
            b_offered = responds(B) && !answers.empty() && answers.front().ready_cycle <= cycle && draw_ready();
            if (b_offered) {
                top->m_axi_bresp = answers.front().error ? wrong() : 0;
                top->m_axi_bid = answers.front().number;
            }
        }
        top->m_axi_bvalid = b_offered;
        top->m_axi_arready = responds(AR) && draw_ready();
        top->m_axi_awready = responds(AW) && draw_ready();
        top->m_axi_wready = responds(W) && draw_ready();
        owes(R, !r_offered && !reads.empty());
        owes(B, !b_offered && !answers.empty());
    }

    void observe_memory() {
        owes(AR, top->m_axi_arvalid && !top->m_axi_arready);
        owes(AW, top->m_axi_awvalid && !top->m_axi_awready);
        owes(W, top->m_axi_wvalid && !top->m_axi_wready);
        if (r_offered && top->m_axi_rready) {
            r_offered = false;
            ++moved[R];
            Burst& burst = reads[reading];
            if (top->m_axi_rresp & 2)
                ++errors[((top->m_axi_rid & 1) * 2 + (top->m_axi_rresp & 1)) * KINDS + burst.kind()];
            burst.address += width();
            if (--burst.beats == 0) reads.erase(reads.begin() + static_cast<std::ptrdiff_t>(reading));
        }
        if (b_offered && top->m_axi_bready) {
            b_offered = false;
            ++moved[B];
            if (top->m_axi_bresp & 2)
                ++errors[ERRORS + (top->m_axi_bresp & 1) * KINDS + answers.front().wrong];
            answers.pop_front();
        }
        if (top->m_axi_arvalid && top->m_axi_arready) {
            ++moved[AR];
            reads.push_back({top->m_axi_araddr, top->m_axi_arlen + 1u, top->m_axi_arid, draw_cycle()});
        }
        if (top->m_axi_awvalid && top->m_axi_awready) {
            ++moved[AW];
            writes.push_back({top->m_axi_awaddr, top->m_axi_awlen + 1u, top->m_axi_awid, 0});
        }
        if (top->m_axi_wvalid && top->m_axi_wready) {
            ++moved[W];
            Beat beat{std::vector<uint8_t>(width()), static_cast<uint64_t>(top->m_axi_wstrb)};
            std::memcpy(beat.data.data(), &top->m_axi_wdata, width());
            beats.push_back(beat);
        }
        while (!writes.empty() && !beats.empty()) {
            Burst& burst = writes.front();
            const Beat& beat = beats.front();
            for (size_t i = 0; i < width(); ++i) {
                if (!(beat.strobe >> i & 1)) continue;
                if (is_accessible(burst.address + i, 1)) {
                    memory[burst.address + i - base] = beat.data[i];
                } else if (!burst.error) {
                    burst.error = true;
                    burst.wrong = burst.kind();
                }
            }
            burst.address += width();
            beats.pop_front();
            if (--burst.beats == 0) {
                burst.ready_cycle = draw_cycle();
                answers.push_back(burst);
                writes.pop_front();
            }
        }
    }

    // Run a cycle. Outputs depend on the core's registers and on inputs. Inputs are registered as well (core_library.py
    // adds the registers), so all of them change with the clock and one evaluation is enough.
    template <typename Seen>
    void step(Seen seen) {
        drive_memory();
        top->clk = 1;
        top->eval();
        draw(0);
        seen();
        observe_reset();
        observe_memory();
        top->clk = 0;
        top->eval();
        draw(1);
        ++cycle;
    }

    bool write(uint32_t address, uint32_t value) {
        top->s_axi_awaddr = address;
        top->s_axi_wdata = value;
        top->s_axi_wstrb = 15;
        top->s_axi_awvalid = top->s_axi_wvalid = top->s_axi_bready = 1;
        const uint64_t began = cycle;
        for (bool ended = false; !ended;) {
            if (cycle - began > PATIENCE) return false;
            bool aw = false, w = false;
            step([&] {
                aw = top->s_axi_awvalid && top->s_axi_awready;
                w = top->s_axi_wvalid && top->s_axi_wready;
                ended = top->s_axi_bvalid;
            });
            if (aw) top->s_axi_awvalid = 0;
            if (w) top->s_axi_wvalid = 0;
        }
        top->s_axi_bready = 0;
        return true;
    }

    bool read(uint32_t address, uint32_t& value) {
        top->s_axi_araddr = address;
        top->s_axi_arvalid = top->s_axi_rready = 1;
        const uint64_t began = cycle;
        for (bool ended = false; !ended;) {
            if (cycle - began > PATIENCE) return false;
            bool ar = false;
            step([&] {
                ar = top->s_axi_arvalid && top->s_axi_arready;
                ended = top->s_axi_rvalid;
                value = top->s_axi_rdata;
            });
            if (ar) top->s_axi_arvalid = 0;
        }
        top->s_axi_rready = 0;
        return true;
    }
};

}  // namespace

extern "C" {

void core_behave(Device* device, unsigned low, unsigned high, double pause, int unruly);
void core_seed(Device* device, uint64_t seed);

Device* core_new(uint64_t base, uint64_t size, unsigned low, unsigned high, double pause, uint64_t seed) {
    auto* device = new Device;
#if VM_TRACE
    device->context.traceEverOn(true);
#endif
    device->top = std::make_unique<Vcore>(&device->context);
    device->memory.resize(size);
    device->base = base;
    core_behave(device, low, high, pause, 0);
    core_seed(device, seed);
    device->top->clk = 0;
    device->top->rst = 1;
    for (int k = 0; k < 2; ++k) device->step([] {});
    device->top->rst = 0;
    return device;
}

void core_delete(Device* device) {
#if VM_TRACE
    device->waves.reset();
#endif
    device->top->final();
    delete device;
}

uint8_t* core_memory(Device* device) { return device->memory.data(); }
uint64_t core_cycle(Device* device) { return device->cycle; }
int core_write(Device* device, uint32_t address, uint32_t value) { return device->write(address, value); }
int core_read(Device* device, uint32_t address, uint32_t* value) { return device->read(address, *value); }
int core_idle(Device* device) {
    return device->reads.empty() && device->writes.empty() && device->answers.empty() && device->beats.empty();
}

// Set the memory's behaviour.
void core_behave(Device* device, unsigned low, unsigned high, double pause, int unruly) {
    device->low = low, device->high = high;
    device->pause = static_cast<uint32_t>(pause * 4294967295.0);
    device->unruly = unruly != 0;
}
void core_faults(Device* device, const uint64_t* lines, size_t count) {
    device->faults = std::unordered_set<uint64_t>(lines, lines + count);
}

// Start to write waveforms to a file, or stop if `path` is null.
// Return whether the library was built with waveforms and the file can be written.
int core_waves(Device* device, const char* path) {
#if VM_TRACE
    device->waves.reset();
    if (path == nullptr) return 1;
    device->waves = std::make_unique<VerilatedVcdC>();
    device->top->trace(device->waves.get(), 99);
    device->waves->open(path);
    return device->waves->isOpen();
#else
    (void)device, (void)path;
    return 0;
#endif
}

// Silence the memory on a channel after `from` transfers, or on none if `channel` is -1.
void core_silence(Device* device, int channel, uint64_t from) {
    device->silent = channel, device->silent_from = from;
    std::memset(device->moved, 0, sizeof device->moved);
    std::memset(device->waited, 0, sizeof device->waited);
}
// Set the number of cycles for which the memory may owe a transfer before `core_run` ends; 0 is unlimited.
void core_patience(Device* device, uint64_t cycles) { device->patience = cycles; }
const uint64_t* core_waited(Device* device) { return device->waited; }
const uint64_t* core_moved(Device* device) { return device->moved; }
const uint64_t* core_errors(Device* device) { return device->errors; }
// Return whether the transfer that the memory owes on AR or R is of a descriptor.
int core_fetching(Device* device, int channel) {
    if (channel == AR) return device->top->m_axi_arid == 0;
    return !device->reads.empty() && device->reads.front().number == 0;
}
void core_seed(Device* device, uint64_t seed) { device->state = seed * 0x9e3779b97f4a7c15u | 1; }
unsigned core_irq(Device* device) { return device->top->irq; }
uint64_t core_states(Device* device) { return device->before; }
uint64_t core_at_reset(Device* device) { return device->at_reset; }
unsigned core_bus_at_reset(Device* device) { return device->bus_at_reset; }

// Run until the interrupt (return 1), until the memory owes a transfer for too long (2), or for `most` cycles (0).
// Python calls this repeatedly, so that Ctrl-C works.
int core_run(Device* device, uint64_t most) {
    bool raised = false;
    for (uint64_t k = 0; k < most && !raised; ++k) {
        device->step([&] { raised = device->top->irq; });
        if (!raised && !device->patient()) return 2;
    }
    return raised;
}
// Run until bits of the states have a value, the interrupt, or `most` cycles; return whether the bits have the value.
int core_until(Device* device, unsigned low, uint64_t mask, uint64_t value, uint64_t most) {
    bool raised = false;
    for (uint64_t k = 0; k < most && !raised; ++k) {
        device->step([&] { raised = device->top->irq; });
        if ((device->before >> low & mask) == value) return 1;
    }
    return 0;
}
}
