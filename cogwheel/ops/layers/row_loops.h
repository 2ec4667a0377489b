// Loops over rows that the compiler vectorises, for the best instructions of the machine that runs them.
#pragma once
#include <cstdint>
#include <utility>

// GCC compiles the function once for each, and the loader chooses; elsewhere the baseline serves.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define COGWHEEL_FOR_EACH_X86 __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define COGWHEEL_FOR_EACH_X86
#endif

namespace cogwheel::ops {

// Σ term(i), in as many chains as let the compiler use SIMD registers. The order of additions follows from `count`.
template <class T, class Term>
[[gnu::always_inline]] inline T sum_of(std::int64_t count, Term term) {
  constexpr std::int64_t chains = 32;
  T sums[chains] = {};
  std::int64_t i = 0;
  for (; i + chains <= count; i += chains)
    for (std::int64_t chain = 0; chain < chains; ++chain) sums[chain] += term(i + chain);
  T sum = 0;
  for (const T chain : sums) sum += chain;
  for (; i < count; ++i) sum += term(i);
  return sum;
}

// The same for the two parts of term(i), in one pass.
template <class T, class Term>
[[gnu::always_inline]] inline std::pair<T, T> sums_of(std::int64_t count, Term term) {
  constexpr std::int64_t chains = 32;
  T firsts[chains] = {}, seconds[chains] = {};
  std::int64_t i = 0;
  for (; i + chains <= count; i += chains)
    for (std::int64_t chain = 0; chain < chains; ++chain) {
      const auto [first, second] = term(i + chain);
      firsts[chain] += first;
      seconds[chain] += second;
    }
  T first_sum = 0, second_sum = 0;
  for (std::int64_t chain = 0; chain < chains; ++chain) {
    first_sum += firsts[chain];
    second_sum += seconds[chain];
  }
  for (; i < count; ++i) {
    const auto [first, second] = term(i);
    first_sum += first;
    second_sum += second;
  }
  return {first_sum, second_sum};
}

}  // namespace cogwheel::ops
