#include "cogwheel/ops/pairwise/parameters.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <sstream>

#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

constexpr std::string_view lam = "lam";

const at::Tensor* find(const MechanismParameters& parameters, std::string_view name) {
  for (const auto& [given, tensor] : parameters)
    if (given == name) return &tensor;
  return nullptr;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

std::span<const double> parameter_defaults(const Mechanism& mechanism) {
  return mechanism.pairwise() != nullptr ? mechanism.pairwise()->parameter_defaults : std::span<const double>();
}

}  // namespace

std::vector<std::string> parameter_names(const Mechanism& mechanism) {
  std::vector<std::string> names;
  std::istringstream list_of_names{std::string(mechanism.description.parameters)};
  for (std::string name; std::getline(list_of_names >> std::ws, name, ',');) names.push_back(name);
  return names;
}

void check_parameter_names(const Mechanism& mechanism, const MechanismParameters& parameters) {
  const auto names = parameter_names(mechanism);
  const std::string of = "parameters of " + std::string(mechanism.description.name);
  for (const auto& [name, tensor] : parameters)
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse(of, names.empty() ? "none" : list(names), name);
  // The map's scalars come first in the list, and all have defaults or none.
  for (std::size_t i = parameter_defaults(mechanism).size(); i < names.size(); ++i)
    if (find(parameters, names[i]) == nullptr)
      refuse(names[i],
             names[i] == lam              ? "λ, [H] or broadcastable to [B, H, N]"
             : mechanism.is_matrix()      ? "a tensor [H, terms]"
             : mechanism.sub_heads() == 1 ? "a tensor [H]"
                                          : "a tensor [2H], one for each sub-head",
             "nothing");
}

at::Tensor row_map_parameters(const Mechanism& mechanism, const MechanismParameters& parameters,
                              const at::Tensor& query) {
  const auto in_widest = query.options().dtype(widest_type(query));
  const c10::SymInt heads = query.sym_size(1);
  std::vector<at::Tensor> columns;
  for (const auto& name : parameter_names(mechanism)) {
    if (name == lam) continue;  // belongs to the mixture, not to its row map
    const at::Tensor* given = find(parameters, name);
    if (given == nullptr) {
      columns.push_back(at::full({}, parameter_defaults(mechanism)[columns.size()], in_widest).expand_symint({heads}));
      continue;
    }
    check_like(name, *given, query);
    if (given->dim() != 1 || given->sym_size(0) != heads) {
      refuse(name, shape_text({heads}) + ", one for each query " + (mechanism.sub_heads() == 1 ? "head" : "sub-head"),
             shape_text(*given));
    }
    columns.push_back(given->to(in_widest.dtype()));
  }
  return columns.empty() ? no_parameters(query) : at::stack(columns, -1);
}

at::Tensor no_parameters(const at::Tensor& query) {
  return at::empty_symint({query.sym_size(1), 0}, query.options().dtype(widest_type(query)));
}

at::Tensor mixture_coefficient(const MechanismParameters& parameters, const at::Tensor& output) {
  const at::Tensor& given = *find(parameters, lam);
  check_like(lam, given, output);
  const c10::SymInt heads = output.sym_size(1) / 2;
  const auto refuse_shape = [&] {
    refuse(lam,
           shape_text({heads}) + " or broadcastable to " + shape_text({output.sym_size(0), heads, output.sym_size(2)}),
           shape_text(given));
  };
  const auto check_size = [&](std::int64_t dimension, const c10::SymInt& wanted) {
    if (given.sym_size(dimension) != 1 && given.sym_size(dimension) != wanted) refuse_shape();
  };
  if (given.dim() == 1) {  // one for each head, not for each query
    check_size(0, heads);
    return given.unsqueeze(0).unsqueeze(-1);
  }
  if (given.dim() > 3) refuse_shape();
  const c10::SymInt wanted[] = {output.sym_size(2), heads, output.sym_size(0)};
  at::Tensor coefficient = given;
  for (std::int64_t back = 1; back <= given.dim(); ++back) check_size(-back, wanted[back - 1]);
  while (coefficient.dim() < 3) coefficient = coefficient.unsqueeze(0);
  return coefficient;
}

}  // namespace cogwheel::ops
