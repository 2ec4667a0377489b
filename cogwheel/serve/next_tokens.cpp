#include "cogwheel/serve/next_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cogwheel/core/error.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::serve {
namespace {

std::vector<double> probabilities_of(const std::vector<float>& logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) sum += probabilities.emplace_back(std::exp(double{logit} - largest));
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

nlohmann::ordered_json next_tokens(const ViewedRun& run, std::span<const SaidNext> columns) {
  constexpr std::size_t of_each = 6;
  std::vector<std::vector<double>> probabilities;
  std::vector<std::size_t> shown;
  for (const SaidNext& column : columns) {
    const std::vector<double>& of_column = probabilities.emplace_back(probabilities_of(column.logits));
    // Rows beyond the tokenizer say nothing that could be shown.
    std::vector<std::size_t> order(std::min(of_column.size(), static_cast<std::size_t>(run.tokenizer().vocabulary())));
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(of_each, order.size()));
    std::partial_sort(order.begin(), end, order.end(),
                      [&](std::size_t a, std::size_t b) { return of_column[a] > of_column[b]; });
    for (auto token = order.begin(); token != end; ++token)
      if (std::find(shown.begin(), shown.end(), *token) == shown.end()) shown.push_back(*token);
  }
  std::stable_sort(shown.begin(), shown.end(),
                   [&](std::size_t a, std::size_t b) { return probabilities[0][a] > probabilities[0][b]; });
  auto list = nlohmann::ordered_json::array();
  for (const std::size_t token : shown) {
    auto of_token = nlohmann::ordered_json::array();
    for (const auto& of_column : probabilities) of_token.push_back(of_column[token]);
    list.push_back({{"token", run.piece(static_cast<Token>(token))}, {"probabilities", std::move(of_token)}});
  }
  return list;
}

nlohmann::ordered_json logit_difference_of(const ViewedRun& run, std::span<const SaidNext> columns,
                                           const std::string& answer, const std::string& foil, bool edited) {
  if (answer.empty() && foil.empty()) return nullptr;
  nlohmann::ordered_json json;
  try {
    const Token first = run.one_token(answer, "answer"), second = run.one_token(foil, "foil");
    if (first == second)
      throw UsageError(expected_got("foil", "another token than the answer, or the difference is 0", foil));
    json = {{"answer", run.piece(first)}, {"foil", run.piece(second)}};
    std::vector<double> differences;
    for (const SaidNext& column : columns)
      differences.push_back(double{column.logits[static_cast<std::size_t>(first)]} -
                            column.logits[static_cast<std::size_t>(second)]);
    json["differences"] = differences;
    if (edited) {
      if (differences[1] == 0)
        throw UsageError(expected_got("change", "a logit difference other than 0 without edits", "0"));
      json["change"] = (differences[0] - differences[1]) / std::abs(differences[1]);
    }
  } catch (const Error& error) {
    json["problem"] = error.what();
  }
  return json;
}

}  // namespace cogwheel::serve
