#include "cogwheel/mechanisms/catalogue.h"

#include "cogwheel/core/error.h"
#include "cogwheel/core/nearest_names.h"
#include "cogwheel/mechanisms/all_mechanisms.h"  // generated from mechanisms.def

namespace cogwheel {
namespace {

constexpr Mechanism catalogue[] = {
#define ROW_MAP(identifier, Map) {MechanismKind::row_map, Map::description, #identifier, 1},
#define MIXTURE(identifier, Mixture) \
  {MechanismKind::mixture, Mixture::description, Mixture::Member::description.name, Mixture::sub_heads},
#define TIED(identifier, Layer) {MechanismKind::tied, Layer::description, Layer::Map::description.name, 1},
#include "cogwheel/mechanisms/mechanisms.def"
#undef ROW_MAP
#undef MIXTURE
#undef TIED
};

}  // namespace

std::span<const Mechanism> mechanisms() { return catalogue; }

std::vector<std::string> mechanism_names() {
  std::vector<std::string> names;
  for (const auto& mechanism : catalogue) names.emplace_back(mechanism.description.name);
  return names;
}

const Mechanism& find_mechanism(std::string_view name, std::string_view what) {
  for (const auto& mechanism : catalogue)
    if (mechanism.description.name == name) return mechanism;
  throw UsageError(expected_got(what, expected_names(name, mechanism_names()), std::string(name)));
}

}  // namespace cogwheel
