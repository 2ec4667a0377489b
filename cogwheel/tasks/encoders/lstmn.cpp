#include "cogwheel/tasks/encoders/lstmn.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <vector>

#include "cogwheel/runs/named_pass.h"

namespace cogwheel::tasks::encoders {

LstmnImpl::LstmnImpl(const LstmnOptions& options)
    : Forerunner((check(options), options), "lstmn", options.width), options_(options) {
  const std::int64_t width = options.width;
  cell_ = register_module("cell", nn::RecurrentNetwork(nn::RecurrentNetworkOptions{.inputs = width, .width = width}));
  alignment_ =
      register_module("alignment", nn::AlignmentLayer(nn::AlignmentLayerOptions{
                                       .alignment = alignment_over(AlignmentScore::additive, options.mechanism),
                                       .decoder_width = 2 * width,
                                       .encoder_width = width,
                                       .score_width = width}));
}

void LstmnImpl::initialize(std::uint64_t seed) {
  const nn::WeightInitializer initializer(seed);
  initialize_ends(initializer);
  cell_->initialize(initializer, "cell");
  alignment_->initialize(initializer, "alignment", deviation_of(options_.width));
}

at::Tensor LstmnImpl::states(const at::Tensor& tokens, const nn::Dropout& dropout) {
  const at::Tensor embedded = embed(tokens, dropout);
  const nn::RecurrentSteps step = cell_->steps();
  nn::AlignmentMemory past;
  at::Tensor read = at::zeros_like(embedded.select(1, 0));  // p
  std::vector<at::Tensor> states;
  for (std::int64_t t = 0; t < embedded.size(1); ++t) {
    const at::Tensor x = embedded.select(1, t);
    nn::CellStates state;
    if (t > 0) {
      const at::Tensor found = computed(alignment_->forward(at::cat({x, read}, -1).unsqueeze(1), past).squeeze(1));
      read = found.narrow(-1, 0, options_.width);
      state = {.hidden = {read}, .memory = {found.narrow(-1, options_.width, options_.width)}};
    }
    const at::Tensor made = step(x, state);
    states.push_back(made);
    const at::Tensor kept = at::cat({made, state.memory[0]}, -1).unsqueeze(1);
    const nn::AlignmentMemory own = alignment_->remember(made.unsqueeze(1), {}, kept);
    past = t == 0 ? own : past.followed_by(own);
  }
  return at::stack(states, 1);
}

Classified LstmnImpl::classify(const at::Tensor& tokens, const at::Tensor&, const nn::ForwardContext& context, bool) {
  const at::Tensor all = states(tokens, context.dropout), seen = seen_tokens(context, all);
  const at::Tensor mean = seen.defined() ? (all * seen).sum(1) / seen.sum(1) : all.mean(1);
  return {.logits = read_classes(mean, context.dropout)};
}

namespace {

runs::NamedPass lstmn_pass(const runs::RunConfig& config) {
  return pass_of_classifier(Lstmn(config.model.as<LstmnOptions>()));
}

}  // namespace

const runs::ModelEntry& lstmn_entry() {
  static const runs::ModelEntry entry = runs::model_entry_of<LstmnImpl, LstmnOptions>(
      "lstmn", lstmn_pass, {{"tokens"}, {"segments", true}, {"lengths", true}});
  return entry;
}

}  // namespace cogwheel::tasks::encoders
