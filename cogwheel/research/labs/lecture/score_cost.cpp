// What the scores of Bahdanau and of Luong cost: operations, counted as libtorch executes them, and time, of
// all steps at once and of one decoder step, whose source is projected already. Times are of this machine and differ
// from run to run.
#include <ATen/Functions.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "cogwheel/ops/pairwise/attention.h"
#include "cogwheel/research/labs/drawn_tensor.h"
#include "cogwheel/research/labs/lab.h"
#include "cogwheel/research/labs/turns.h"

namespace cogwheel::labs::score_cost {
namespace {

LabParameters parameters() {
  return {{{"batch", {16}, {1, 4096}, "sentences"},
           {"source", {30}, {1, 4096}, "S, words of a source"},
           {"target", {30}, {1, 4096}, "T, words of a target"},
           {"width", {256}, {8, 256}, "d, of the states of encoder and decoder and of the additive score"},
           {"repeats", {30}, {1, 100000}, "rounds in which the scores take turns; the fastest counts"},
           {"seed", {1}, {0, 1e15}, "of the random numbers"}}};
}

// Operations that libtorch is called for, without views and without those inside of others.
class OperationCounter {
 public:
  OperationCounter() {
    count_ = depth_ = 0;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::FUNCTION}));
  }
  OperationCounter(const OperationCounter&) = delete;
  OperationCounter& operator=(const OperationCounter&) = delete;
  ~OperationCounter() { at::removeCallback(handle_); }
  static int count() { return count_; }

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    const std::string_view name = function.name();
    const bool view = name == "aten::unsqueeze" || name == "aten::transpose" || name == "aten::t";
    count_ += depth_++ == 0 && !view ? 1 : 0;
    return nullptr;
  }
  static void end(const at::RecordFunction& /*function*/, at::ObserverContext* /*context*/) { --depth_; }

  static thread_local int count_, depth_;
  at::CallbackHandle handle_;
};
thread_local int OperationCounter::count_ = 0;
thread_local int OperationCounter::depth_ = 0;

struct States {
  at::Tensor decoder;                                 // [B, T, d]
  at::Tensor encoder, encoder_columns;                // [B, S, d], [B, d, S]
  at::Tensor projected, general_columns;              // U_a h, and W_a h as columns: once per source
  at::Tensor query_weight, key_weight, score_weight;  // [d, d], [d, d], [d]
};

struct Score {
  std::string name, formula;
  int source_operations;  // as the lecture counts them; 0: it does not
  std::function<at::Tensor(const States&)> whole, step;
  std::string repeated;  // what is left for a step whose source is projected
};

std::vector<Score> scores() {
  const auto additive = [](const States& states, const at::Tensor& projected) {
    const at::Tensor queries = at::matmul(states.decoder, states.query_weight);
    return at::matmul(at::tanh(at::add(queries.unsqueeze(2), projected.unsqueeze(1))), states.score_weight);
  };
  return {
      {"additive", "v·tanh(W s + U h)", 5,
       [=](const States& states) { return additive(states, at::matmul(states.encoder, states.key_weight)); },
       [=](const States& states) { return additive(states, states.projected); }, "W s, +, tanh, v·"},
      {"general", "s·W h", 2,
       [](const States& states) {
         return at::matmul(at::matmul(states.decoder, states.query_weight), states.encoder_columns);
       },
       [](const States& states) { return at::matmul(states.decoder, states.general_columns); }, "s·(W h)"},
      {"dot", "s·h", 1, [](const States& states) { return at::matmul(states.decoder, states.encoder_columns); },
       [](const States& states) { return at::matmul(states.decoder, states.encoder_columns); }, "s·h"},
  };
}

// In microseconds.
std::vector<double> fastest(const std::vector<std::function<void()>>& works, std::int64_t repeats) {
  std::vector<double> times = fastest_in_turns(works, repeats);
  for (double& each : times) each *= 1e6;
  return times;
}

States draw_states(const LabParameters& given, std::int64_t steps) {
  Draws draws(static_cast<std::uint64_t>(given.whole("seed")), 0);
  const std::int64_t batch = given.whole("batch"), source = given.whole("source"), width = given.whole("width");
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const auto drawn = [&](at::IntArrayRef sizes, double deviation) {
    return normal_tensor(sizes, deviation, draws).to(at::kFloat);
  };
  States states{.decoder = drawn({batch, steps, width}, 1),
                .encoder = drawn({batch, source, width}, 1),
                .encoder_columns = {},
                .projected = {},
                .general_columns = {},
                .query_weight = drawn({width, width}, scale),
                .key_weight = drawn({width, width}, scale),
                .score_weight = drawn({width}, scale)};
  states.encoder_columns = states.encoder.transpose(1, 2);
  states.projected = at::matmul(states.encoder, states.key_weight);
  states.general_columns = at::matmul(states.encoder, states.query_weight.t()).transpose(1, 2);
  return states;
}

// Cogwheel's own operators: scores, softmax and the sum over h in one pass, the source projected.
std::vector<std::function<void()>> fused(const States& states) {
  const auto heads = [](const at::Tensor& tensor) { return tensor.unsqueeze(1); };
  ops::AttentionOptions additive;
  additive.score = "additive";
  additive.score_weight = states.score_weight.unsqueeze(0);
  return {[=] {
            ops::attention(heads(at::matmul(states.decoder, states.query_weight)), heads(states.projected),
                           heads(states.encoder), "softmax", additive);
          },
          [=] {
            ops::attention(heads(states.decoder), heads(states.general_columns.transpose(1, 2)), heads(states.encoder));
          },
          [=] { ops::attention(heads(states.decoder), heads(states.encoder), heads(states.encoder)); }};
}

LabResult run(const LabParameters& given, const LabHost& /*host*/) {
  using enum Finding::Relation;
  using enum Finding::Whose;
  const std::vector<Score> all = scores();
  const States whole = draw_states(given, given.whole("target")), step = draw_states(given, 1);
  std::vector<std::function<void()>> of_whole, of_step;
  std::vector<int> operations, operations_of_step;
  for (const Score& score : all) {
    of_whole.emplace_back([&] { score.whole(whole); });
    of_step.emplace_back([&] { score.step(step); });
    {
      const OperationCounter counter;
      score.whole(whole);
      operations.push_back(counter.count());
    }
    const OperationCounter counter;
    score.step(step);
    operations_of_step.push_back(counter.count());
  }
  const std::int64_t repeats = given.whole("repeats");
  const std::vector<double> eager_whole = fastest(of_whole, repeats), eager_step = fastest(of_step, repeats),
                            fused_whole = fastest(fused(whole), repeats), fused_step = fastest(fused(step), repeats);

  LabResult result{.answer = "", .findings = {}, .timed = true};
  pages::TextTable table{
      fmt::format("Operations, and microseconds for {} sentences, S = {}, T = {}, d = {}", given.whole("batch"),
                  given.whole("source"), given.whole("target"), given.whole("width")),
      {"score", "formula", "operations", "all steps", "left for one step", "one step", "fused, all steps",
       "fused, one step"},
      {}};
  for (std::size_t index = 0; index < all.size(); ++index) {
    const Score& score = all[index];
    const auto microseconds = [](double value) { return fmt::format("{:.0f}", value); };
    result.findings.push_back({"Operations of the " + score.name + " score, " + score.formula, printed, near,
                               static_cast<double>(score.source_operations), 0,
                               static_cast<double>(operations[index])});
    table.rows.push_back(
        {score.name, score.formula, std::to_string(operations[index]), microseconds(eager_whole[index]),
         std::to_string(operations_of_step[index]) + ": " + score.repeated, microseconds(eager_step[index]),
         microseconds(fused_whole[index]), microseconds(fused_step[index])});
  }
  const std::string trap =
      "The lecture says that tanh prevents computing anything before. U h does not depend on the step and is computed "
      "once per source, as W h of the general score is; what each step repeats is the sum, tanh and the product with "
      "v, "
      "over S·d numbers.";
  const auto ratio = [&](const std::string& what, const std::vector<double>& times, std::size_t other,
                         Finding::Relation relation, const std::string& remark) {
    result.findings.push_back(
        {what, relation == above ? direction : nobody, relation, 1, 0, times[0] / times[other], remark});
  };
  ratio("Time of additive over dot, all steps at once", eager_whole, 2, above, "");
  ratio("Time of additive over general, all steps at once", eager_whole, 1, above, "");
  ratio("Time of additive over dot, one decoder step", eager_step, 2, above, "");
  ratio("Time of additive over general, one decoder step, the source projected before", eager_step, 1, above, trap);
  ratio("Time of additive over dot, all steps, attention in one fused pass", fused_whole, 2, shown, "");
  ratio("Time of additive over dot, one decoder step, attention in one fused pass", fused_step, 2, shown, "");
  result.answer = fmt::format(
      "The additive score takes {} operations and {:.1f} times as long as the dot product for all steps at once, "
      "{:.1f} "
      "times for one decoder step.",
      operations[0], eager_whole[0] / eager_whole[2], eager_step[0] / eager_step[2]);
  result.tables = {table};
  result.assumptions = {
      {"An operation is a call of libtorch.", "Products, sums and tanh count; views of a tensor do not."},
      {"Times are those of this machine.",
       "The fastest of several rounds in which the scores take turns, in one process, on as many threads as it has. "
       "They differ from run to run; everything else on this page does not."},
      {"Fused is all of attention.",
       "Cogwheel's operator computes scores, softmax and the sum over the states in one pass, which holds no tensor of "
       "size T·S·d. The columns before are the scores alone, one operation after the other."}};
  return result;
}

}  // namespace
}  // namespace cogwheel::labs::score_cost

namespace cogwheel::labs {
LabEntry score_cost_lab() {
  return {"score-cost", "What a score costs", "Is a multiplicative score cheaper than an additive one, and why?",
          score_cost::parameters(), score_cost::run};
}
}  // namespace cogwheel::labs
