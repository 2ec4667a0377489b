#include "cogwheel/nn/weights/joined_products.h"

#include <ATen/ops/cat.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cogwheel/nn/weights/row_products.h"
#include "cogwheel/ops/layers/row_product.h"

namespace cogwheel::nn {
namespace {

// Where one pass waits.
struct WaitingProduct {
  at::Tensor row;
  const RowWeight* weight = nullptr;  // null: it waits for none
  at::Tensor result = {};
  std::exception_ptr failure = {};  // why there is none, which the pass throws
};

at::Tensor product_of(const at::Tensor& rows, const RowWeight& weight) {
  return ops::row_product(rows, weight.numbers, weight.scale, weight.bias);
}

bool same(const ops::OptionalTensor& one, const ops::OptionalTensor& other) {
  return one.has_value() == other.has_value() && (!one || one->is_same(*other));
}

bool same_weight(const RowWeight& one, const RowWeight& other) {
  return one.numbers.is_same(other.numbers) && same(one.scale, other.scale) && same(one.bias, other.bias);
}

// One product for all passes that wait for the same weight.
void make_products(std::vector<WaitingProduct>& waiting) {
  for (std::size_t first = 0; first < waiting.size(); ++first) {
    if (waiting[first].weight == nullptr) continue;
    const RowWeight weight = *waiting[first].weight;
    std::vector<std::size_t> passes;
    std::vector<at::Tensor> rows;
    for (std::size_t pass = first; pass < waiting.size(); ++pass)
      if (waiting[pass].weight != nullptr && same_weight(*waiting[pass].weight, weight)) {
        passes.push_back(pass);
        rows.push_back(waiting[pass].row);
      }
    at::Tensor results;
    std::exception_ptr failure;
    try {
      results = product_of(rows.size() == 1 ? rows.front() : at::cat(rows), weight);
    } catch (...) {
      failure = std::current_exception();
    }
    for (std::size_t index = 0; index < passes.size(); ++index) {
      WaitingProduct& one = waiting[passes[index]];
      if (!failure) one.result = results.narrow(0, static_cast<std::int64_t>(index), 1);
      one.failure = failure;
      one.weight = nullptr;
    }
  }
}

}  // namespace

std::vector<std::exception_ptr> JoinedProducts::run(std::span<const std::function<void()>> passes) {
  const c10::InferenceMode inference;  // saves each of many small operators its look for derivatives
  std::vector<std::exception_ptr> thrown(passes.size());
  if (passes.size() == 1) {
    const RowProducts products(product_of);
    try {
      passes.front()();
    } catch (...) {
      thrown.front() = std::current_exception();
    }
    return thrown;
  }
  while (fibers_.size() < passes.size()) fibers_.push_back(std::make_unique<Fiber>());
  std::vector<WaitingProduct> waiting(passes.size());
  std::size_t running = 0;  // the pass whose turn it is
  const RowProducts products([&](const at::Tensor& row, const RowWeight& weight) {
    const std::size_t pass = running;
    waiting[pass].row = row;
    waiting[pass].weight = &weight;
    fibers_[pass]->pause();
    if (waiting[pass].failure) std::rethrow_exception(std::exchange(waiting[pass].failure, nullptr));
    return std::move(waiting[pass].result);
  });
  const auto take_turn = [&](std::size_t pass, bool begins) {
    running = pass;
    try {
      if (begins)
        fibers_[pass]->start(passes[pass]);
      else
        fibers_[pass]->resume();
    } catch (...) {
      thrown[pass] = std::current_exception();
    }
  };
  for (std::size_t pass = 0; pass < passes.size(); ++pass) take_turn(pass, true);
  const auto goes_on = [&](std::size_t pass) { return !fibers_[pass]->ended(); };
  while (std::any_of(waiting.begin(), waiting.end(), [](const auto& each) { return each.weight != nullptr; })) {
    make_products(waiting);
    for (std::size_t pass = 0; pass < passes.size(); ++pass)
      if (goes_on(pass)) take_turn(pass, false);
  }
  return thrown;
}

}  // namespace cogwheel::nn
