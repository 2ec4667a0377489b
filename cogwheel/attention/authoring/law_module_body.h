// The end of the one translation unit of a law's module: checks that AuthoredMap has a law, and exports it. The
// engine's kernels already serve every law, so none are compiled. COGWHEEL_MODULE_STAMP is a string.
#pragma once
#include "cogwheel/attention/mechanisms/recurrent_contract.h"

namespace cogwheel::authoring {

template <class Type>
concept HasLaw = requires {
  RecurrentLaw(Type::law);
};
static_assert(HasLaw<AuthoredMap>, "expected `static constexpr RecurrentLaw law`, got none");

}  // namespace cogwheel::authoring

extern "C" {
__attribute__((visibility("default"))) extern const char cogwheel_mechanism_stamp[];
const char cogwheel_mechanism_stamp[] = COGWHEEL_MODULE_STAMP;

__attribute__((visibility("default"))) void cogwheel_recurrent_law(cogwheel::RecurrentLaw* law) {
  *law = cogwheel::AuthoredMap::law;
}
}
