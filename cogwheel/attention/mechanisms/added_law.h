// Laws with a state that users define: in the catalogue as any other.
#pragma once
#include <string_view>

#include "cogwheel/attention/mechanisms/catalogue.h"

namespace cogwheel {

// Adds the law, whose texts are copied, and returns its entry; forms combine with none. Else as add_mechanism, and
// throws what check_recurrent_law throws.
const Mechanism& add_recurrent_law(const RecurrentLaw& law, std::string_view definition);

}  // namespace cogwheel
