#include "cogwheel/tasks/translation/sequence_to_sequence.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "cogwheel/core/error.h"
#include "cogwheel/core/token.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/nn/losses/token_loss.h"
#include "cogwheel/nn/weights/collected_weight.h"
#include "cogwheel/nn/weights/matrix_product.h"
#include "cogwheel/nn/weights/new_parameter.h"
#include "cogwheel/nn/weights/to_device.h"
#include "cogwheel/ops/support/checks.h"
#include "cogwheel/runs/named_pass.h"

namespace cogwheel::tasks::translation {
namespace {

// Parts of the model's dropout.
enum DropoutPart : std::uint64_t {
  source_embedding,
  encoder_layers,
  target_embedding,
  decoder_layers,
  alignment,
  predicting
};

nn::RecurrentCell cell_of(const SequenceToSequenceOptions& options) {
  return options.cell == "lstm" ? nn::RecurrentCell::lstm : nn::RecurrentCell::gru;
}

struct RecurrentState : Translator::State {
  DecoderState decoder;

  explicit RecurrentState(DecoderState state) : decoder(std::move(state)) {}
  std::unique_ptr<State> fork(const at::Tensor& entries) const override {
    return std::make_unique<RecurrentState>(decoder.of_entries(entries));
  }
};

// What products gave in bfloat16, as what is between them: float32. Other types stay.
at::Tensor computed(const at::Tensor& x) { return x.to(ops::computed_type(x)); }

}  // namespace

DecoderState DecoderState::of_entries(const at::Tensor& entries) const {
  return {memory.fork(entries), cells.of_entries(entries), fed.defined() ? fed.index_select(0, entries) : at::Tensor(),
          step};
}

SequenceToSequenceImpl::SequenceToSequenceImpl(const SequenceToSequenceOptions& options) : options_(options) {
  check(options);
  const std::int64_t width = options.width;
  const auto matrix = [&](const char* name) { return nn::new_parameter(*this, name, {options.vocabulary, width}); };
  embedding_ = matrix("embedding");
  if (!options.tied_embeddings) {
    target_embedding_ = matrix("target_embedding");
    output_ = matrix("output");
  }
  output_bias_ = nn::new_parameter(*this, "output_bias", {options.vocabulary});
  alignment_ = register_module("alignment", nn::AlignmentLayer(nn::AlignmentLayerOptions{.alignment = options.mechanism,
                                                                                         .decoder_width = width,
                                                                                         .encoder_width = width,
                                                                                         .heads = options.heads,
                                                                                         .radius = options.radius}));
  encoder_ = register_module("encoder", nn::RecurrentNetwork(nn::RecurrentNetworkOptions{.cell = cell_of(options),
                                                                                         .inputs = width,
                                                                                         .width = width / 2,
                                                                                         .layers = options.layers,
                                                                                         .bidirectional = true}));
  const std::int64_t inputs = width + (aligns_before_step() || feeds() ? width : 0);
  decoder_ = register_module(
      "decoder", nn::RecurrentNetwork(nn::RecurrentNetworkOptions{
                     .cell = cell_of(options), .inputs = inputs, .width = width, .layers = options.layers}));
  const std::int64_t states = options.layers * (options.cell == "lstm" ? 2 : 1);
  const auto first_states = register_module("first_states", torch::nn::ModuleList());
  for (std::int64_t state = 0; state < states; ++state) {
    first_states_.emplace_back(width, width, true);
    first_states->push_back(first_states_.back());
  }
  if (!aligns() || aligns_before_step())
    readout_ = register_module("readout", nn::Linear((aligns() ? 3 : 2) * width, width, true));
  if (options.feed_forward > 0) {
    widen_ = register_module("widen", nn::Linear(width, options.feed_forward, true));
    narrow_ = register_module("narrow", nn::Linear(options.feed_forward, width, true));
  }
}

bool SequenceToSequenceImpl::feeds() const { return options_.input_feeding && aligns() && !aligns_before_step(); }

void SequenceToSequenceImpl::initialize(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const nn::WeightInitializer initializer(seed);
  const double deviation = 1 / std::sqrt(static_cast<double>(options_.width));
  // Rows of length 1 on average, so that tied logits are of order 1 at first; states read them through wider weights.
  initializer.normal(embedding_, "embedding", deviation);
  if (target_embedding_.defined()) initializer.normal(target_embedding_, "target_embedding", deviation);
  if (output_.defined()) initializer.normal(output_, "output", deviation);
  output_bias_.zero_();
  encoder_->initialize(initializer, "encoder");
  decoder_->initialize(initializer, "decoder");
  for (std::size_t state = 0; state < first_states_.size(); ++state)
    first_states_[state]->initialize(initializer, "first_states." + std::to_string(state), deviation);
  alignment_->initialize(initializer, "alignment", deviation);
  if (readout_) readout_->initialize(initializer, "readout", deviation);
  if (widen_) {
    widen_->initialize(initializer, "widen", deviation);
    narrow_->initialize(initializer, "narrow", 1 / std::sqrt(static_cast<double>(options_.feed_forward)));
  }
}

at::Tensor SequenceToSequenceImpl::embed_source(const at::Tensor& tokens) {
  return at::embedding(embedding_, nn::to_device(tokens, embedding_.device()));
}
at::Tensor SequenceToSequenceImpl::embed_target(const at::Tensor& tokens) {
  return at::embedding(target_embedding_.defined() ? target_embedding_ : embedding_,
                       nn::to_device(tokens, embedding_.device()));
}

DecoderState SequenceToSequenceImpl::read(const at::Tensor& tokens, const at::Tensor& given_lengths,
                                          const nn::Dropout& dropout) {
  const at::Tensor lengths = nn::to_device(given_lengths, embedding_.device());
  const auto [output, last] = encoder_->forward(dropout.part(source_embedding)(embed_source(tokens)),
                                                {.lengths = lengths, .dropout = dropout.part(encoder_layers)});
  DecoderState state;
  state.memory = alignment_->remember(output, lengths);
  const auto first = [&](const std::vector<at::Tensor>& lasts, std::size_t layer, nn::Linear& projection) {
    return computed(projection(at::cat({lasts[2 * layer], lasts[2 * layer + 1]}, -1))).tanh();
  };
  const auto layers = static_cast<std::size_t>(options_.layers);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    state.cells.hidden.push_back(first(last.hidden, layer, first_states_[layer]));
    if (!last.memory.empty()) state.cells.memory.push_back(first(last.memory, layer, first_states_[layers + layer]));
  }
  if (feeds()) state.fed = at::zeros_like(state.cells.hidden.back());
  return state;
}

at::Tensor SequenceToSequenceImpl::readout(const at::Tensor& states, const at::Tensor& contexts,
                                           const at::Tensor& embedded) {
  if (!readout_) return alignment_->attentional_state(contexts, states);
  std::vector<at::Tensor> read{computed(states), embedded};
  if (aligns()) read.insert(read.begin() + 1, computed(contexts));
  return readout_(at::cat(read, -1)).tanh();
}

// Where the alignment reads what the decoder has made, and nothing flows back into it, all steps are one call.
SequenceToSequenceImpl::Pass SequenceToSequenceImpl::pass_at_once(DecoderState& state, const at::Tensor& embedded,
                                                                  const nn::Dropout& dropout) {
  const auto [states, last] = decoder_->forward(embedded, {.dropout = dropout.part(decoder_layers)}, state.cells);
  const at::Tensor contexts =
      aligns() ? alignment_->forward(states, state.memory, state.step, dropout.part(alignment)) : at::Tensor();
  state.cells = last;
  state.step += embedded.size(1);
  return {readout(states, contexts, embedded), states};
}

SequenceToSequenceImpl::Pass SequenceToSequenceImpl::pass_by_steps(DecoderState& state, const at::Tensor& embedded,
                                                                   const nn::Dropout& dropout) {
  const nn::RecurrentSteps step = decoder_->steps();
  std::vector<at::Tensor> states, contexts, aligned, predicted;
  for (std::int64_t t = 0; t < embedded.size(1); ++t, ++state.step) {
    const auto part = static_cast<std::uint64_t>(t);
    const at::Tensor input = embedded.select(1, t);
    const auto align = [&](const at::Tensor& query) {
      aligned.push_back(query);
      contexts.push_back(
          computed(alignment_->forward(query.unsqueeze(1), state.memory, state.step, dropout.part(alignment).part(part))
                       .squeeze(1)));
      return contexts.back();
    };
    const at::Tensor beside = feeds() ? state.fed : align(state.cells.hidden.back());
    states.push_back(step(at::cat({input, beside}, -1), state.cells, dropout.part(decoder_layers).part(part)));
    if (!feeds()) continue;
    align(states.back());
    state.fed =
        computed(alignment_->attentional_state(contexts.back().unsqueeze(1), states.back().unsqueeze(1)).squeeze(1));
    predicted.push_back(state.fed);
  }
  const auto over_steps = [](const std::vector<at::Tensor>& each) { return at::stack(each, 1); };
  return {feeds() ? over_steps(predicted) : readout(over_steps(states), over_steps(contexts), embedded),
          over_steps(aligned)};
}

SequenceToSequenceImpl::Pass SequenceToSequenceImpl::pass(DecoderState& state, const at::Tensor& inputs,
                                                          const nn::Dropout& dropout) {
  if (inputs.dim() != 2 || inputs.size(1) == 0)
    throw UsageError(
        expected_got("sequence to sequence: target", "[batch, 1 or more tokens]", shape_text(inputs.sizes())));
  const at::Tensor embedded = dropout.part(target_embedding)(embed_target(inputs));
  return aligns_before_step() || feeds() ? pass_by_steps(state, embedded, dropout)
                                         : pass_at_once(state, embedded, dropout);
}

at::Tensor SequenceToSequenceImpl::predict(DecoderState state, const at::Tensor& inputs, const nn::Dropout& dropout) {
  return dropout.part(predicting)(pass(state, inputs, dropout).predicted);
}

at::Tensor SequenceToSequenceImpl::step(DecoderState& state, const at::Tensor& tokens) {
  return pass(state, tokens.unsqueeze(1), {}).predicted.squeeze(1);
}

at::Tensor SequenceToSequenceImpl::product_of_logits(const at::Tensor& x) {
  at::Tensor read = x;
  if (widen_) read = computed(x) + narrow_(widen_(x).tanh());
  return nn::matrix_product(read, output_.defined() ? output_ : embedding_, output_bias_);
}

at::Tensor SequenceToSequenceImpl::logits(const at::Tensor& x) { return computed(product_of_logits(x)); }

std::unique_ptr<Translator::State> SequenceToSequenceImpl::start(const at::Tensor& tokens, const at::Tensor& lengths) {
  return std::make_unique<RecurrentState>(read(tokens, lengths));
}

at::Tensor SequenceToSequenceImpl::next_logits(State& state, const at::Tensor& tokens) {
  return logits(step(static_cast<RecurrentState&>(state).decoder, tokens));
}

at::Tensor SequenceToSequenceImpl::loss(const at::Tensor& source, const at::Tensor& lengths, const at::Tensor& inputs,
                                        const at::Tensor& targets, double smoothing, const nn::Dropout& dropout) {
  const at::Tensor x = predict(read(source, lengths, dropout), inputs, dropout).flatten(0, 1);
  // Logits of padding would be the larger part of the work in a ragged batch.
  const at::Tensor flat = targets.flatten(),
                   places = nn::to_device((flat != ignored_target).nonzero().squeeze(1), x.device());
  return nn::token_loss(product_of_logits(x.index_select(0, places)),
                        nn::to_device(flat, x.device()).index_select(0, places), smoothing);
}

at::Tensor SequenceToSequenceImpl::weights(const DecoderState& given, const at::Tensor& inputs) {
  DecoderState state = given;
  return alignment_->weights(pass(state, inputs, {}).aligned, given.memory, given.step);
}

at::Tensor SequenceToSequenceImpl::source_weights(const at::Tensor& source, const at::Tensor& lengths,
                                                  const at::Tensor& inputs, std::optional<std::int64_t> layer) {
  if (layer)
    throw UsageError(
        expected_got("alignment layer", "none for a recurrent model, which has one alignment", std::to_string(*layer)));
  return weights(read(source, lengths), inputs);
}

const runs::ModelEntry& sequence_to_sequence_entry() {
  static const runs::ModelEntry entry =
      runs::model_entry_of<SequenceToSequenceImpl, SequenceToSequenceOptions>("sequence_to_sequence");
  return entry;
}

}  // namespace cogwheel::tasks::translation
