// A core's Verilog as a library: the model that Verilator makes, a memory at its AXI4 port, and its registers.
//
// TensorDash calls it by ctypes (verilated.py); Python runs once for a program, not once for a cycle.

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

constexpr uint64_t PATIENCE = 100000;  // cycles in which a register answers

struct Burst {
    uint64_t address;
    unsigned beats;
    unsigned number;  // its ID
    uint64_t due;
    bool error = false;
};

struct Device {
    VerilatedContext context;
    std::unique_ptr<Vcore> top;
    std::vector<uint8_t> memory;
    uint64_t base = 0;
    uint64_t cycle = 0;
    unsigned low = 1, high = 1;  // latency
    uint32_t pause = 0;          // of 2^32, how often a channel does not move though it could
    uint64_t state = 1;
    bool unruly = false;         // data of different IDs come in any order
    std::unordered_set<uint64_t> faults;  // lines that answer with an error
    std::deque<Burst> reads, writes, answers;
    size_t reading = 0;  // which of the reads the beat that is offered is of
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
    // What is offered to the core, and stays until it is taken.
    bool r_given = false, b_given = false;

    uint32_t random() {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return static_cast<uint32_t>(state >> 32);
    }
    bool moves() { return pause == 0 || random() >= pause; }
    uint64_t due() { return cycle + low + (high > low ? random() % (high - low + 1) : 0); }
    size_t width() const { return sizeof(top->m_axi_rdata); }
    bool there(uint64_t address, uint64_t bytes) const {
        return address >= base && bytes <= memory.size() && address - base <= memory.size() - bytes &&
               (faults.empty() || faults.count(address / width()) == 0);
    }
    // The first burst, or the first of any ID; whether its data may come.
    bool choose() {
        reading = 0;
        if (unruly && random() & 1)
            while (reading < reads.size() && reads[reading].number == reads.front().number) ++reading;
        if (reading == reads.size()) reading = 0;
        return reading < reads.size() && reads[reading].due <= cycle && moves();
    }

    void drive_memory() {
        if (!r_given) {
            r_given = choose();
            if (r_given) {
                const Burst& burst = reads[reading];
                const bool good = there(burst.address, width());
                if (good) {
                    std::memcpy(&top->m_axi_rdata, &memory[burst.address - base], width());
                } else {
                    std::memset(&top->m_axi_rdata, 0x5a, width());
                }
                top->m_axi_rresp = good ? 0 : unruly ? 2 + (random() & 1) : 2;
                top->m_axi_rlast = burst.beats == 1;
                top->m_axi_rid = burst.number;
            }
        }
        top->m_axi_rvalid = r_given;
        if (!b_given) {
            b_given = !answers.empty() && answers.front().due <= cycle && moves();
            if (b_given) {
                top->m_axi_bresp = answers.front().error ? 2 : 0;
                top->m_axi_bid = answers.front().number;
            }
        }
        top->m_axi_bvalid = b_given;
        top->m_axi_arready = moves();
        top->m_axi_awready = moves();
        top->m_axi_wready = moves();
    }

    void observe_memory() {
        if (r_given && top->m_axi_rready) {
            r_given = false;
            Burst& burst = reads[reading];
            burst.address += width();
            if (--burst.beats == 0) reads.erase(reads.begin() + static_cast<std::ptrdiff_t>(reading));
        }
        if (b_given && top->m_axi_bready) {
            b_given = false;
            answers.pop_front();
        }
        if (top->m_axi_arvalid && top->m_axi_arready)
            reads.push_back({top->m_axi_araddr, top->m_axi_arlen + 1u, top->m_axi_arid, due()});
        if (top->m_axi_awvalid && top->m_axi_awready)
            writes.push_back({top->m_axi_awaddr, top->m_axi_awlen + 1u, top->m_axi_awid, 0});
        if (top->m_axi_wvalid && top->m_axi_wready) {
            Beat beat{std::vector<uint8_t>(width()), static_cast<uint64_t>(top->m_axi_wstrb)};
            std::memcpy(beat.data.data(), &top->m_axi_wdata, width());
            beats.push_back(beat);
        }
        while (!writes.empty() && !beats.empty()) {
            Burst& burst = writes.front();
            const Beat& beat = beats.front();
            for (size_t i = 0; i < width(); ++i) {
                if (!(beat.strobe >> i & 1)) continue;
                if (there(burst.address + i, 1))
                    memory[burst.address + i - base] = beat.data[i];
                else
                    burst.error = true;
            }
            burst.address += width();
            beats.pop_front();
            if (--burst.beats == 0) {
                burst.due = due();
                answers.push_back(burst);
                writes.pop_front();
            }
        }
    }

    // A cycle: what the core shows is a function of its registers and of what is driven. All of them change with the clock,
    // what is driven too (verilated.py puts registers in front of it), so that one evaluation is enough.
    template <typename Seen>
    void step(Seen seen) {
        drive_memory();
        top->clk = 1;
        top->eval();
        draw(0);
        seen();
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

Device* core_new(uint64_t base, uint64_t size, unsigned low, unsigned high, double pause, uint64_t seed) {
    auto* device = new Device;
#if VM_TRACE
    device->context.traceEverOn(true);
#endif
    device->top = std::make_unique<Vcore>(&device->context);
    device->memory.resize(size);
    device->base = base;
    core_behave(device, low, high, pause, 0);
    device->state = seed * 0x9e3779b97f4a7c15u | 1;
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

// How the memory behaves from here on.
void core_behave(Device* device, unsigned low, unsigned high, double pause, int unruly) {
    device->low = low, device->high = high;
    device->pause = static_cast<uint32_t>(pause * 4294967295.0);
    device->unruly = unruly != 0;
}
void core_faults(Device* device, const uint64_t* lines, size_t count) {
    device->faults = std::unordered_set<uint64_t>(lines, lines + count);
}

// Waves from here on, into a file; without a name, no more of them. Whether this was built for it, and can write there.
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

// Run until the interrupt, at most so many cycles; whether it came. Python asks again and again, so that Ctrl-C works.
int core_run(Device* device, uint64_t most) {
    bool raised = false;
    for (uint64_t k = 0; k < most && !raised; ++k) device->step([&] { raised = device->top->irq; });
    return raised;
}
}
