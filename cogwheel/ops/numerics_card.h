// The cards of mechanisms: of a row map as authoring measures them; of one with a state measured through its operator,
// which is what there is to measure of a law.
#pragma once
#include <filesystem>

#include "cogwheel/attention/authoring/authoring.h"
#include "cogwheel/attention/authoring/card/numerics_card.h"

namespace cogwheel::ops {

// numerics_card, of mechanisms with a state too. Inputs are drawn from fixed seeds; options are at their defaults.
authoring::NumericsCard numerics_card(const Mechanism& mechanism);

// Whether a text cut in two gives the whole, outputs are what the weights give, and derivatives are those of finite
// differences: throws UsageError with the first that is wrong.
void check_recurrent_numbers(const RecurrentLaw& law);

// load_mechanism, and check_recurrent_numbers of a law.
const Mechanism& load_checked_mechanism(const std::filesystem::path& header,
                                        const authoring::CompileProgress& progress = authoring::progress_on_terminal());

}  // namespace cogwheel::ops
