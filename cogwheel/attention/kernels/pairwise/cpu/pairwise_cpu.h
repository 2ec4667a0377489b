// The pairwise engine for one instruction set. Read inside the region of a target (isa_begin.h), after the map.
#pragma once
#include "cogwheel/attention/kernels/pairwise/cpu/mixture_statistics.h"
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_backward.h"
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_decode.h"
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_forward.h"

namespace cogwheel::HWY_NAMESPACE {

template <class Map, class T>
requires RowMap<Map, Vector<T>>
void pairwise_forward(const PairwiseForward<T>& problem, const Executor& executor) {
  if (DecodeEngine<Map, T>::serves(problem))
    DecodeEngine<Map, T>(problem).run(executor);
  else
    ForwardEngine<Map, T>(problem).run(executor);
}

template <class Map, class T>
requires RowMap<Map, Vector<T>>
void pairwise_backward(const PairwiseBackward<T>& problem, const Executor& executor) {
  BackwardEngine<Map, T>(problem).run(executor);
}

template <class Map, class T>
requires RowMap<Map, Vector<T>>
void mixture_statistics(const MixtureStatistics<T>& problem, const Executor& executor) {
  MixtureStatisticsEngine<Map, T>(problem).run(executor);
}

template <class Map, class T>
inline constexpr PairwiseKernel<T> pairwise_kernel_of{.forward = pairwise_forward<Map, T>,
                                                      .backward = pairwise_backward<Map, T>,
                                                      .mixture_statistics = mixture_statistics<Map, T>};

}  // namespace cogwheel::HWY_NAMESPACE
