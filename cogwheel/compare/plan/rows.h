// The rows of a comparison: a mechanism each, or a variant, and the configuration that follows.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/compare/plan/variants.h"
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/runs/configuration/run_config.h"

namespace cogwheel::compare {

// The row that a mechanism is by itself: its name, and nothing beside it.
Variant of_mechanism(const std::string& name);

// Adds a row; it is not matched and its steps not decided yet. Throws UsageError that names `option` where the name is
// taken, the model is that of another row, or a key is not one that rows may differ in: what decides the data, their
// order and the budget is the same for all.
void add_row(Comparison& comparison, const Variant& variant, std::string_view option);

// The same at each width of the comparison, rows of their own, or once where it has none.
void add_row_at_widths(Comparison& comparison, const Variant& variant, std::string_view option);

// `shared` with what is the row's own, and at its balanced width where that is decided. Throws UsageError.
runs::RunConfig row_configuration(runs::RunConfig shared, const MechanismPlan& plan);

// Whether a row sets keys of a section, such as "task.".
bool sets_keys_of(const MechanismPlan& plan, std::string_view section);

}  // namespace cogwheel::compare
