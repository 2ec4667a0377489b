// Whatever law the check lets pass runs: its operator, its card and a plain layer.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/added_law.h"
#include "cogwheel/attention/mechanisms/recurrent_law_check.h"
#include "cogwheel/nn/recurrent_layer.h"
#include "cogwheel/ops/mechanism_card.h"

namespace cogwheel::own_law_test {
namespace {

// Every combination that is sound, without the tensors that may be left out, and with them.
const std::vector<const Mechanism*>& sound_laws() {
  static const std::vector<const Mechanism*> laws = [] {
    std::vector<const Mechanism*> added;
    const auto add = [&](RecurrentLaw law, bool with_allowed) {
      std::vector<RecurrentParameter> parameters;
      for (const ReadParameter& read : parameters_read(law))
        if (with_allowed || read.presence != ReadParameter::allowed)
          parameters.push_back({read.name, read.axes[0], read.values, read.presence != ReadParameter::optional});
      law.parameters = parameters;
      const std::string name = "law_" + std::to_string(added.size());
      law.name = name, law.title = "A law", law.formula = "S";
      if (!fault_of(law)) added.push_back(&add_recurrent_law(law, name));
    };
    for (std::size_t t = 0; t < std::size(transition_names); ++t)
      for (std::size_t w = 0; w < std::size(write_names); ++w)
        for (std::size_t r = 0; r < std::size(read_names); ++r)
          for (std::size_t walks = 0; walks < std::size(walks_names); ++walks)
            for (std::size_t f = 0; f < std::size(features_names); ++f)
              for (std::size_t n = 0; n < std::size(normalizer_names); ++n) {
                const RecurrentLaw law{.name = {},
                                       .title = {},
                                       .transition = static_cast<Transition>(t),
                                       .write = static_cast<Write>(w),
                                       .read = static_cast<Read>(r),
                                       .walks = static_cast<Walks>(walks),
                                       .features = static_cast<Features>(f),
                                       .normalizer = static_cast<Normalizer>(n),
                                       .parameters = {},
                                       .formula = {},
                                       .citation = {}};
                const ReadParameters read = parameters_read(law);
                add(law, false);
                if (std::any_of(read.begin(), read.end(),
                                [](const ReadParameter& each) { return each.presence == ReadParameter::allowed; }))
                  add(law, true);
              }
    return added;
  }();
  return laws;
}

std::string described(const RecurrentLaw& law) {
  return std::string(name_in(transition_names, law.transition)) + ", " + std::string(name_in(write_names, law.write)) +
         ", " + std::string(name_in(read_names, law.read)) + ", " + std::string(name_in(walks_names, law.walks)) +
         ", " + std::string(name_in(features_names, law.features)) + ", " +
         std::string(name_in(normalizer_names, law.normalizer)) + ", " + std::to_string(law.parameters.size()) +
         " parameters";
}

TEST(OwnLaw, EveryOneThatIsSoundRunsRight) {
  EXPECT_GT(sound_laws().size(), 40u);
  for (const Mechanism* mechanism : sound_laws()) {
    SCOPED_TRACE(described(*mechanism->recurrent()));
    EXPECT_NO_THROW(check_recurrent_numbers(*mechanism->recurrent()));
  }
}

TEST(OwnLaw, HasAPlainLayerThatLearnsAndDecodes) {
  for (const Mechanism* mechanism : sound_laws()) {
    SCOPED_TRACE(described(*mechanism->recurrent()));
    RecurrentLayer layer(RecurrentLayerOptions{.width = 16,
                                               .heads = 2,
                                               .mechanism = std::string(mechanism->description.name),
                                               .layer = 1,
                                               .layers = 2,
                                               .context = 20});
    layer->initialize(WeightInitializer(7), "layer", 0.5, 0.5);
    layer->to(at::kDouble);
    const at::Tensor x = torch::randn({2, 9, 16}, at::make_generator<at::CPUGeneratorImpl>(3), at::kDouble);
    const at::Tensor whole = layer(x);
    whole.square().sum().backward();
    for (const auto& parameter : layer->named_parameters()) {
      ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
      EXPECT_TRUE(parameter.value().grad().isfinite().all().item<bool>()) << parameter.key();
    }
    const torch::NoGradGuard no_grad;
    const auto state = layer->make_state(2, 0);
    ForwardContext context;
    context.layer_state = state.get();
    const at::Tensor begun = layer->forward(x.slice(1, 0, 5), context), rest = layer->forward(x.slice(1, 5), context);
    EXPECT_TRUE(at::allclose(at::cat({begun, rest}, 1), whole, 1e-9, 1e-11));
  }
}

TEST(OwnLaw, HasACard) {
  for (const char* name : {"gla", "s4", "dfw", "mlstm", "cosformer", "deltanet"}) {
    const NumericsCard card = mechanism_card(find_mechanism(name));
    EXPECT_TRUE(card.problems.empty()) << name << ": " << card.problems.front();
    EXPECT_NE(to_text(card).find("the same bits with 1, 2, 3 and 5 threads"), std::string::npos) << to_text(card);
  }
}

}  // namespace
}  // namespace cogwheel::own_law_test
