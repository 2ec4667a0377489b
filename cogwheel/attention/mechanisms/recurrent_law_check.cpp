#include "cogwheel/attention/mechanisms/recurrent_law_check.h"

#include <cstddef>
#include <exception>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/mechanisms/recurrent_call.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"

namespace cogwheel {
namespace {

[[noreturn]] void refuse_law(const RecurrentLaw& law, std::string_view part, std::string_view expected,
                             std::string_view got) {
  throw UsageError(expected_got(std::string(law.name) + ": " + std::string(part), expected, got));
}

struct WithoutNumbers : LawTensor::Held {
  LawTensor made(LawOperation, std::span<const LawTensor> others, double) const override {
    for (const LawTensor& other : others) other.held();
    return LawTensor(std::make_shared<WithoutNumbers>());
  }
};
LawTensor some_tensor() { return LawTensor(std::make_shared<WithoutNumbers>()); }

// A call of a law's function that has no numbers, to see what it reads and gives.
class CallWithoutNumbers : public LawCall {
 public:
  // With all that may be given, or only with what must be.
  CallWithoutNumbers(const RecurrentLaw& law, bool with_all) : LawCall(law), with_all_(with_all) {
    if (law.has_query) query = some_tensor();
    if (law.has_key) key = some_tensor();
    value = some_tensor();
    normalized = law.normalizer == Normalizer::always || (law.normalizer == Normalizer::asked && with_all);
    for (std::size_t part = 0; with_all && part < parts(); ++part) initial_state.push_back(some_tensor());
  }

  // Of a state.
  std::size_t parts() const { return parts_of_state(law_, normalized).size(); }
  const std::set<std::string_view>& read() const { return read_; }

  LawOutcome walked(const LawWalk& walk) const override {
    for (const LawTensor* each : {&walk.query, &walk.key, &walk.value}) each->held();
    if (walk.transition != Transition::none && !walk.decay)
      refuse_law(law_, "transition", "none, or a decay for its walk",
                 std::string(name_in(transition_names, walk.transition)) + " without " +
                     std::string(decay_name(walk.transition)));
    if (walk.transition == Transition::none && walk.decay)
      refuse_law(law_, "transition", "that of the walk's decay", "none");
    if (walk.reads_before && walk.transition != Transition::per_channel)
      refuse_law(law_, "transition", "per_channel, for a walk that reads before it writes",
                 name_in(transition_names, walk.transition));
    if (walk.column_decay &&
        (walk.transition == Transition::constant || walk.transition == Transition::per_token || walk.normalized))
      refuse_law(law_, "log_value_decay", "none, but beside per_channel or no other decay, not normalised", "one");
    if (walk.column_decay && walk.reads_before)
      refuse_law(law_, "log_value_decay", "none, for a walk that reads before it writes", "one");
    LawOutcome outcome{some_tensor(), {some_tensor()}};
    if (walk.normalized) outcome.state.push_back(some_tensor());
    return outcome;
  }
  LawOutcome walked(const ElementWalk& walk) const override {
    for (const LawTensor* each : {&walk.value, &walk.delta, &walk.a}) each->held();
    if (!walk.query != !walk.key || !walk.b != !walk.c || !walk.b != !!walk.query)
      refuse_law(law_, "run", "a walk with query and key or with b and c", "another");
    return {some_tensor(), {some_tensor()}};
  }
  LawTensor features(const LawTensor& x) const override { return x.held(), x; }
  LawTensor computed(const LawTensor& x) const override { return x.held(), x; }
  LawTensor positions() const override { return some_tensor(); }
  LawTensor lengths() const override { return some_tensor(); }
  ExponentialWeights exponential_weights(const LawTensor& input, const LawTensor& forget,
                                         const LawTensor&) const override {
    for (const LawTensor* each : {&input, &forget}) each->held();
    return {some_tensor(), some_tensor(), some_tensor(), some_tensor()};
  }

 protected:
  LawTensor given(std::string_view name) const override {
    for (const RecurrentParameter& parameter : law_.parameters)
      if (parameter.name == name) {
        read_.insert(parameter.name);
        return parameter.required || with_all_ ? some_tensor() : LawTensor();
      }
    return {};
  }

 private:
  bool with_all_;
  mutable std::set<std::string_view> read_;
};

void check_function(const RecurrentLaw& law) {
  std::set<std::string_view> read;
  for (const bool with_all : {false, true}) {
    const CallWithoutNumbers call(law, with_all);
    LawOutcome outcome;
    try {
      outcome = law.run(call);
    } catch (const UsageError&) {
      throw;
    } catch (const std::exception& error) {  // of LawTensor and LawCall, in the form of all messages
      throw UsageError(std::string(law.name) + ": " + error.what());
    }
    if (!outcome.output) refuse_law(law, "run", "an output", "none");
    if (outcome.state.size() != call.parts())
      refuse_law(law, "state", std::to_string(outcome.state.size()) + " parts, as its function gives",
                 std::to_string(call.parts()));
    for (const LawTensor& part : outcome.state)
      if (!part) refuse_law(law, "run", "a state", "none");
    read.insert(call.read().begin(), call.read().end());
  }
  for (const RecurrentParameter& parameter : law.parameters)
    if (!read.contains(parameter.name) && parameter.name != "projection")
      refuse_law(law, "parameters", "those that its function reads", parameter.name);
}

}  // namespace

void check_recurrent_law(const RecurrentLaw& law) {
  const LawFault fault = fault_of(law);
  if (!fault) {
    if (law.run != nullptr) check_function(law);
    return;
  }
  std::string what = std::string(law.name.empty() ? "law" : law.name) + ": " + std::string(fault.part);
  if (!fault.aspect.empty()) what += ": " + std::string(fault.aspect);
  std::string expected(fault.expected);
  if (expected.empty() && fault.aspect.empty()) {
    std::vector<std::string> names;
    for (const ReadParameter& each : parameters_read(law)) names.emplace_back(each.name);
    expected = names.empty()       ? "none, for the law reads none"
               : names.size() == 1 ? names.front()
                                   : expected_names(fault.got, names);
  }
  throw UsageError(expected_got(what, expected.empty() ? "none, a number" : expected,
                                fault.got.empty() ? "none" : std::string(fault.got)));
}

}  // namespace cogwheel
