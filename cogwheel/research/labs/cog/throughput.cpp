// Time and memory of softmax and Cog by the length, fused and naive, forward and with backward: the measurement behind
// Fig. 7 of the paper of Cog, whose lengths are lost. Times are of this machine; bytes are counted.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>

#include "cogwheel/core/process/memory.h"
#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/one_thread.h"
#include "cogwheel/research/labs/sums.h"
#include "cogwheel/research/labs/turns.h"

namespace cogwheel::labs::throughput {
namespace {

LabParameters parameters() {
  using enum LabParameter::Kind;
  return {{{"lengths", {512, 1024, 2048, 4096, 8192, 16384}, {16, 65536}, "n, tokens; rising", whole, true},
           {"naive_longest",
            {16384},
            {16, 16384},
            "n up to which the naive form is run, as far as memory holds its matrices"},
           {"heads", {1}, {1, 64}, "of queries, keys and values"},
           {"width", {64}, {8, 256}, "of a head"},
           {"causal", {1}, {0, 1}, "1: a token sees those up to itself"},
           {"repeats", {1}, {1, 1000}, "rounds in which softmax and Cog take turns; the fastest counts"},
           {"seconds", {1}, {0, 60}, "that these rounds take at least", LabParameter::Kind::real},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

void check(const LabParameters& given) { given.expect_rising("lengths"); }

// The most bytes that tensors hold at once while it lives, beyond those that were there.
class PeakBytes {
  struct Count : c10::MemoryReportingInfoBase {
    std::atomic<std::int64_t> held{0}, peak{0};
    void reportMemoryUsage(void* /*pointer*/, int64_t bytes, size_t /*total*/, size_t /*reserved*/,
                           c10::Device /*device*/) override {
      const std::int64_t now = held += bytes;
      std::int64_t most = peak;
      while (now > most && !peak.compare_exchange_weak(most, now)) {
      }
    }
    bool memoryProfilingEnabled() const override { return true; }
  };

 public:
  PeakBytes() : count_(std::make_shared<Count>()), guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}
  double bytes() const { return static_cast<double>(count_->peak.load()); }

 private:
  std::shared_ptr<Count> count_;
  c10::DebugInfoGuard guard_;
};

struct Heads {
  at::Tensor query, key, value, gradient;  // [1, H, n, d]
};

at::Tensor fused(const Heads& heads, const std::string& mechanism, bool causal) {
  ops::AttentionOptions options;
  options.causal = causal;
  return ops::attention(heads.query, heads.key, heads.value, mechanism, options);
}

// As a first implementation has it: every matrix of size n × n is a tensor.
at::Tensor naive(const Heads& heads, const std::string& mechanism, bool causal) {
  const double scale = 1 / std::sqrt(static_cast<double>(heads.query.size(3)));
  at::Tensor scores = at::matmul(heads.query, heads.key.transpose(2, 3)) * scale;
  const at::Tensor later = causal ? at::ones({scores.size(2), scores.size(3)}, at::kBool).triu(1) : at::Tensor();
  const auto hidden = [&](const at::Tensor& energies) {
    return causal ? energies.masked_fill(later, -INFINITY) : energies;
  };
  if (mechanism == "softmax") return at::matmul(at::softmax(hidden(scores), -1), heads.value);
  return at::matmul(scores.sign() * at::softmax(hidden(scores.abs()), -1), heads.value);
}

// That its matrices take with backward, six of n × n numbers and a mask; with some to spare.
double naive_bytes(std::int64_t length, std::int64_t heads) {
  return 28 * static_cast<double>(length) * static_cast<double>(length) * static_cast<double>(heads);
}

using Form = at::Tensor (*)(const Heads&, const std::string&, bool);

void pass(Form form, const Heads& heads, const std::string& mechanism, bool causal, bool backward) {
  const at::Tensor output = form(heads, mechanism, causal);
  if (backward) torch::autograd::grad({output}, {heads.query, heads.key, heads.value}, {heads.gradient});
}

struct Measured {
  std::vector<double> length, softmax, cog;  // tokens; seconds
  std::vector<double> softmax_bytes, cog_bytes;

  double time_ratio(std::size_t index) const { return cog[index] / softmax[index]; }
  double mean_time_ratio() const {
    double sum = 0;
    for (std::size_t i = 0; i < length.size(); ++i) sum += std::log(time_ratio(i));
    return std::exp(sum / static_cast<double>(length.size()));
  }
  double bytes_ratio() const { return cog_bytes.back() / softmax_bytes.back(); }
};

struct Kind {
  std::string name;
  Form form;
  bool backward;
};

LabResult run(const LabParameters& given, const LabHost& host) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const OneThread one_thread;
  const bool causal = given.whole("causal") == 1;
  const std::int64_t heads = given.whole("heads"), width = given.whole("width");
  const std::vector<Kind> kinds{{"fused, forward", fused, false},
                                {"fused, with backward", fused, true},
                                {"naive, forward", naive, false},
                                {"naive, with backward", naive, true}};
  std::vector<Measured> measured(kinds.size());
  std::optional<std::int64_t> too_large;  // the first n whose matrices memory does not hold
  for (const std::int64_t length : given.wholes("lengths")) {
    bool with_naive = length <= given.whole("naive_longest");
    if (const std::optional<std::int64_t> available = available_memory_bytes();
        with_naive && available && naive_bytes(length, heads) > static_cast<double>(*available)) {
      with_naive = false;
      if (!too_large) too_large = length;
      host.progress(fmt::format("n = {}: without the naive form, which needs {:.1f} GB; the machine has {:.1f} GB left",
                                length, naive_bytes(length, heads) / 1e9, static_cast<double>(*available) / 1e9));
    }
    Draws draws(static_cast<std::uint64_t>(given.whole("seed")), static_cast<std::uint64_t>(length));
    const auto drawn = [&] { return normal_tensor({1, heads, length, width}, 1, draws).to(at::kFloat); };
    Heads tensors{drawn().requires_grad_(true), drawn().requires_grad_(true), drawn().requires_grad_(true), drawn()};
    const Heads plain{tensors.query.detach(), tensors.key.detach(), tensors.value.detach(), tensors.gradient};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const Kind& kind = kinds[i];
      if (kind.form == naive && !with_naive) continue;
      const auto work = [&](const std::string& mechanism) {
        return [&, mechanism] { pass(kind.form, kind.backward ? tensors : plain, mechanism, causal, kind.backward); };
      };
      const std::vector<double> seconds = fastest_in_turns({work("softmax"), work("cog")}, given.whole("repeats"),
                                                           Clock::thread, given.number("seconds"));
      const auto bytes = [&](const std::string& mechanism) {
        const PeakBytes peak;
        work(mechanism)();
        return peak.bytes();
      };
      Measured& of = measured[i];
      of.length.push_back(static_cast<double>(length));
      of.softmax.push_back(seconds[0]), of.cog.push_back(seconds[1]);
      of.softmax_bytes.push_back(bytes("softmax")), of.cog_bytes.push_back(bytes("cog"));
    }
    host.progress(fmt::format("n = {}: with backward Cog takes {:.2f} of softmax's time", length,
                              measured[1].time_ratio(measured[1].length.size() - 1)));
  }

  LabResult result{.answer = "", .findings = {}, .timed = true};
  const std::string at = fmt::format("n = {}", number_for_readers(measured[0].length.back()));
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (measured[i].length.empty()) continue;
    const bool is_fused = kinds[i].form == fused;
    result.findings.push_back(
        {"Time of Cog over softmax, " + kinds[i].name + ", mean of all n", is_fused ? direction : nobody,
         is_fused ? at_most : shown, 1.1, 0, measured[i].mean_time_ratio(),
         is_fused ? "The paper: no extra time. A tenth is what rounds of a busy machine differ by." : ""});
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (measured[i].length.empty()) continue;
    const bool is_fused = kinds[i].form == fused;
    result.findings.push_back({"Bytes of Cog over softmax, " + kinds[i].name + ", at the longest n",
                               is_fused ? direction : nobody, is_fused ? at_most : shown, 1.05, 0,
                               measured[i].bytes_ratio(),
                               is_fused ? "The paper: an increase that is negligible unless n is very large." : ""});
  }
  const auto growth = [](const Measured& of) {
    std::vector<double> x, y;
    for (std::size_t i = 0; i < of.length.size(); ++i)
      x.push_back(std::log(of.length[i])), y.push_back(std::log(of.cog_bytes[i]));
    return x.size() > 1 ? fit_line(x, y).slope : std::nan("");
  };
  if (measured[0].length.size() > 1)
    result.findings.push_back({"Bytes of fused Cog, forward: exponent of n", ours, near, 1, 0.1, growth(measured[0])});
  if (measured[2].length.size() > 1)
    result.findings.push_back({"Bytes of naive Cog, forward: exponent of n", ours, near, 2, 0.2, growth(measured[2])});

  pages::TextTable table{
      "By length", {"n", "form", "softmax, ms", "Cog, ms", "Cog over softmax", "softmax, MB", "Cog, MB"}, {}};
  pages::LineChart forward{.title = "Throughput, forward",
                           .x = {.title = "n, tokens", .logarithmic = true},
                           .y = {.title = "tokens a second", .logarithmic = true},
                           .series = {}},
      backward = forward,
      memory{.title = "Memory of a forward pass, inputs not counted",
             .x = {.title = "n, tokens", .logarithmic = true},
             .y = {.title = "MB", .logarithmic = true},
             .series = {}};
  backward.title = "Throughput, with backward";
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const Measured& of = measured[i];
    for (const bool cog : {false, true}) {
      const std::string name = std::string(cog ? "Cog" : "softmax") + (kinds[i].form == fused ? ", fused" : ", naive");
      pages::ChartSeries speed{.name = name, .x = of.length, .y = {}}, bytes{.name = name, .x = of.length, .y = {}};
      for (std::size_t at_length = 0; at_length < of.length.size(); ++at_length) {
        speed.y.push_back(of.length[at_length] / (cog ? of.cog : of.softmax)[at_length]);
        bytes.y.push_back((cog ? of.cog_bytes : of.softmax_bytes)[at_length] / 1e6);
      }
      (kinds[i].backward ? backward : forward).series.push_back(speed);
      if (!kinds[i].backward) memory.series.push_back(bytes);
    }
    for (std::size_t n = 0; n < of.length.size(); ++n)
      table.rows.push_back({number_for_readers(of.length[n]), kinds[i].name, fmt::format("{:.2f}", 1e3 * of.softmax[n]),
                            fmt::format("{:.2f}", 1e3 * of.cog[n]), fmt::format("{:.2f}", of.time_ratio(n)),
                            fmt::format("{:.2f}", of.softmax_bytes[n] / 1e6),
                            fmt::format("{:.2f}", of.cog_bytes[n] / 1e6)});
  }
  result.charts = {forward, backward, memory};
  result.tables = {table};
  result.answer = fmt::format(
      "Fused, Cog takes {:.2f} times the time of softmax forward and {:.2f} times with backward, as means over n, and "
      "{:.3f} "
      "times the memory at {}.",
      measured[0].mean_time_ratio(), measured[1].mean_time_ratio(), measured[0].bytes_ratio(), at);
  result.assumptions = {
      {"A CPU takes the place of the A800.",
       "The paper's kernels are Triton's, on a GPU. What carries over is whether the map costs "
       "anything beside its products."},
      {"The fastest of several rounds in which both take turns.",
       "Processor time of one thread, which what else the machine does slows little; it differs from run to run."},
      {"Bytes are those of tensors.",
       "The most that libtorch held at once beyond the inputs, outputs and gradients included. "
       "Scratch of the kernels, a few "
       "blocks for each thread whatever n is, is not among them."},
      {fmt::format("{} of width {}, {}.", heads == 1 ? "One head" : fmt::format("{} heads", heads), width,
                   causal ? "causal" : "without a mask"),
       "The naive form is that of the paper's figure 3, right, with libtorch's operations."}};
  if (too_large)
    result.assumptions.push_back(
        {fmt::format("The naive form ends before n = {}.", number_for_readers(static_cast<double>(*too_large))),
         "The memory of this machine did not hold its matrices."});
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::throughput

namespace cogwheel::labs {
LabEntry throughput_lab() {
  return {"throughput",
          "What Cog costs beside softmax",
          "Does a fused kernel of Cog take more time or memory than one of softmax?",
          throughput::parameters(),
          throughput::run,
          throughput::check};
}
}  // namespace cogwheel::labs
