// Shared by both directions of the pairwise engine: packing, and row maps applied to rows of a tile.
#pragma once
#include "cogwheel/attention/kernels/cpu/half_rows.h"
#include "cogwheel/attention/kernels/cpu/streamed_product.h"
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/cpu/vector.h"
#include "cogwheel/attention/kernels/pairwise/cpu/additive_score.h"
#include "cogwheel/attention/kernels/pairwise/cpu/modified_tile.h"
#include "cogwheel/attention/mechanisms/derivatives/differentiated.h"

namespace cogwheel::HWY_NAMESPACE {

template <class T>
constexpr std::int64_t vectors_of(std::int64_t width) {
  return (width + Vector<T>::lanes - 1) / Vector<T>::lanes;
}
template <class T>
constexpr std::int64_t padded(std::int64_t width) {
  return vectors_of<T>(width) * Vector<T>::lanes;
}

// One query head of one batch entry: its map, and which keys its queries see.
template <class Map>
struct QueryHead {
  std::int64_t batch, index, output_head;
  Differentiated<Map> map;
  Visibility visibility;
};

template <class Map, class T>
QueryHead<Map> query_head_of(const PairwiseProblem<T>& problem, std::int64_t batch, std::int64_t index) {
  Differentiated<Map> map;
  constexpr std::size_t count = parameter_count<Map>;
  std::copy_n(problem.parameters + index * static_cast<std::int64_t>(count), count, map.theta.begin());
  const std::int64_t output_head = problem.shape.output_head(index);
  return {batch, index, output_head, map, problem.visibility.of(batch, output_head)};
}

// How many keys the queries see, for the rows of a block.
template <class Map, class T>
void count_visible_keys(const PairwiseProblem<T>& problem, const QueryHead<Map>& head, std::int64_t first_query,
                        std::int64_t rows, T* visible) {
  for (std::int64_t r = 0; r < rows; ++r)
    visible[r] =
        static_cast<T>(visible_keys(problem.modifiers, head.visibility, head.batch, head.output_head, first_query + r));
}

template <class T>
struct Rows {
  const T* data;
  std::int64_t stride;

  const T* row(std::int64_t index) const { return data + index * stride; }
};

// As many rows of floats as a vector has lanes × 4 columns, transposed in registers: each vector gathers blocks of four
// columns from every fourth row, so that transposing 4 × 4 within the blocks leaves whole columns.
HWY_INLINE void transpose_four_columns(const float* from, std::int64_t row_stride, float* to, std::int64_t to_stride) {
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> pairs;
  const auto rows = [&](std::int64_t row) HWY_ATTR {
    auto gathered = hn::LoadDup128(d, from + row * row_stride);
#pragma GCC unroll 4
    for (int block = 1; block < Vector<float>::lanes / 4; ++block) {
      const auto later = hn::Not(hn::FirstN(d, static_cast<std::size_t>(4 * block)));
      gathered = hn::IfThenElse(later, hn::LoadDup128(d, from + (row + 4 * block) * row_stride), gathered);
    }
    return gathered;
  };
  const auto a = rows(0), b = rows(1), c = rows(2), e = rows(3);
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, to + 3 * to_stride);
}

// The last rows of a panel, fewer than a vector has lanes: with rows of 0 below them, a block of four columns at a
// time.
HWY_INLINE void transpose_last_rows(const Rows<float>& rows, std::int64_t first, std::int64_t count,
                                    std::int64_t columns, float* panel) {
  float block[Vector<float>::lanes * 4] = {};
  for (std::int64_t d = 0; d < columns; d += 4) {
    for (std::int64_t r = 0; r < count; ++r) std::copy_n(rows.row(first + r) + d, 4, block + 4 * r);
    transpose_four_columns(block, 4, panel + d * panel_keys + first, panel_keys);
  }
}

// `count` ≤ 64 rows of `width` → panel [width][64], zero beyond count to the end of the vector: products read no
// further. With `fetch_next` the following 64 rows are prefetched, one cache line for every block of columns: all at
// once they would delay the loads of this panel.
template <bool fetch_next = false, class T>
void pack_transposed(const Rows<T>& rows, std::int64_t count, std::int64_t width, T* panel) {
  std::int64_t done_columns = 0;
  if constexpr (std::is_same_v<T, float>) {
    const std::int64_t whole = count / Vector<float>::lanes * Vector<float>::lanes;
    done_columns = width / 4 * 4;
    if (whole < count) transpose_last_rows(rows, whole, count - whole, done_columns, panel);
    for (std::int64_t r = 0; r < whole; r += Vector<float>::lanes)
      for (std::int64_t d = 0; d < done_columns; d += 4) {
        if constexpr (fetch_next) {
          constexpr std::int64_t line = 16, at_once = Vector<float>::lanes * 4 / line;  // elements, rows
          const T* next = rows.row(panel_keys + r + d % line / 4 * at_once) + d / line * line;
          for (std::int64_t i = 0; i < at_once; ++i) __builtin_prefetch(next + i * rows.stride, 0, 2);
        }
        transpose_four_columns(rows.row(r) + d, rows.stride, panel + d * panel_keys + r, panel_keys);
      }
  }
  if (done_columns == width) return;
  for (std::int64_t d = done_columns; d < width; ++d)
    std::fill_n(panel + d * panel_keys + count, padded<T>(count) - count, T(0));
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t d = done_columns; d < width; ++d) panel[d * panel_keys + r] = rows.row(r)[d];
}

// Copies one row into whole vectors, times `factor`, zero beyond width.
template <class T>
HWY_INLINE void copy_scaled(const T* from, std::int64_t width, Vector<T> factor, T* to) {
  using V = Vector<T>;
  const std::int64_t whole = width / V::lanes * V::lanes;
  for (std::int64_t x = 0; x < whole; x += V::lanes) (V::load(from + x) * factor).store(to + x);
  if (whole < width) {
    T tail[V::lanes] = {};
    std::copy_n(from + whole, width - whole, tail);
    (V::load(tail) * factor).store(to + whole);
  }
}

// The inverse: whole vectors, times `factor`, into a row of `width`.
template <class T>
HWY_INLINE void store_scaled(const T* from, std::int64_t width, Vector<T> factor, T* to) {
  using V = Vector<T>;
  const std::int64_t whole = width / V::lanes * V::lanes;
  for (std::int64_t x = 0; x < whole; x += V::lanes) (V::load(from + x) * factor).store(to + x);
  if (whole < width) {
    T tail[V::lanes];
    (V::load(from + whole) * factor).store(tail);
    std::copy_n(tail, width - whole, to + whole);
  }
}

// `count` rows of a view as T: in place if they are of that type, else widened into `copy` [count][width].
template <class T>
Rows<T> rows_of(const HeadsView<const T>& view, std::int64_t batch, std::int64_t head, std::int64_t first,
                std::int64_t count, std::int64_t width, T* copy) {
  if constexpr (std::is_same_v<T, float>)
    if (!view.is_compute_dtype()) {
      widen_rows(view.half_row(batch, head, first), view.elements(), view.row_stride(), count, width, copy, width);
      return {copy, width};
    }
  return {view.row(batch, head, first), view.row_stride()};
}

template <class T>
constexpr bool may_have_pairs = HWY_TARGET == HWY_AVX3&& std::is_same_v<T, float>;

template <class T>
const PairProduct* pair_product_of(const PairwiseProblem<T>& problem) {
  if constexpr (may_have_pairs<T>) return problem.pair_product ? *problem.pair_product : chosen_pair_product();
  return nullptr;
}

// The product that multiplies two views as bfloat16 pairs (pair_product.h), or null: it needs an even width, and rows
// aligned to pairs.
template <class T>
const PairProduct* pair_product_for(const PairwiseProblem<T>& problem, const HeadsView<const T>& a,
                                    const HeadsView<const T>& b, std::int64_t width) {
  return width % 2 == 0 && a.lies_in_pairs() && b.lies_in_pairs() ? pair_product_of(problem) : nullptr;
}

// That of queries and keys, or null.
template <class T>
const PairProduct* pair_product_of_keys(const PairwiseProblem<T>& problem) {
  const std::int64_t head_dim = problem.shape.head_dim;
  if (problem.score_weight) return nullptr;
  if (!problem.key_panels.any()) return pair_product_for(problem, problem.query, problem.key, head_dim);
  return problem.key_panels.are_pairs() && problem.query.lies_in_pairs() ? pair_product_of(problem) : nullptr;
}

// The product that multiplies by rows, in pairs of two, what float32 numbers are rounded to, or null; any width and
// address will do.
template <class T>
const PairProduct* pair_product_with_rows(const PairwiseProblem<T>& problem, const HeadsView<const T>& rows) {
  return rows.elements() == Elements::bfloat16 ? pair_product_of(problem) : nullptr;
}

// Packs rows as pairs of two rows [(count + 1)/2][width, in whole vectors], 0 beyond an odd count. Returns whether any
// element is infinite or NaN.
template <class T>
bool pack_row_pairs(const HeadsView<const T>& view, std::int64_t batch, std::int64_t head, std::int64_t first,
                    std::int64_t count, std::int64_t width, T* pairs) {
  if constexpr (may_have_pairs<T>)
    return pair_rows(view.half_row(batch, head, first), view.row_stride(), count, width, pairs, padded<T>(width));
  return false;
}

// Rows of pairs, half as many as elements.
template <class T>
Rows<T> pairs_of(const HeadsView<const T>& view, std::int64_t batch, std::int64_t head, std::int64_t first) {
  return {reinterpret_cast<const T*>(view.half_row(batch, head, first)), view.row_stride() / 2};
}

template <class T>
void product_of_pairs(const PairProduct& product, std::int64_t rows, std::int64_t vectors, std::int64_t pairs,
                      const ProductOperands<T>& x, bool streamed = false) {
  if constexpr (std::is_same_v<T, float>)
    product.multiply(rows, vectors, pairs,
                     {.a = x.a,
                      .a_row = x.a_row,
                      .b = x.b,
                      .b_row = x.b_row,
                      .c = x.c,
                      .c_row = x.c_row,
                      .b_panel = x.b_panel,
                      .streamed = streamed});
}

// The elements of a key in a panel: those of its row, or of its pairs; whole vectors of an additive score.
template <class T>
std::int64_t panel_width_of(const PairwiseProblem<T>& problem, const PairProduct* by_pairs) {
  if (by_pairs) return problem.shape.head_dim / 2;
  return problem.score_weight ? padded<T>(problem.shape.head_dim) : problem.shape.head_dim;
}

// Rows that are scored, weighed and multiplied together. The more, the less calls and tests of ranges cost: four
// register tiles are 1 to 4 % faster than one, and more gain nothing. An additive score keeps a vector for each score
// of its rows.
template <class T>
std::int64_t group_rows_of(const PairwiseProblem<T>& problem, const PairProduct* by_pairs) {
  constexpr std::int64_t register_tile = 6;
  if (problem.score_weight) return register_tile;
  return by_pairs ? by_pairs->group_rows : 4 * register_tile;
}

// Packs up to 64 keys for score_tile: transposed, [width][64]; those of an additive score as they are, [64][width].
template <bool fetch_next = false, class T>
void pack_keys(const PairwiseProblem<T>& problem, const Rows<T>& keys, std::int64_t count, std::int64_t width,
               T* panel) {
  if (!problem.score_weight) return pack_transposed<fetch_next>(keys, count, width, panel);
  for (std::int64_t r = 0; r < count; ++r)
    copy_scaled(keys.row(r), problem.shape.head_dim, Vector<T>(T(1)), panel + r * width);
}

// Whether keys lie in panels as score_tile takes them.
template <class T>
bool has_panels_in_place(const PairwiseProblem<T>& problem, const PairProduct* by_pairs) {
  return problem.key_panels.any() && (by_pairs || problem.key_panels.is_compute_dtype());
}

// One of the panels of a key head as score_tile takes them: in place, or widened into `copy`.
template <class T>
const T* whole_panel(const PairwiseProblem<T>& problem, const PairProduct* by_pairs, std::int64_t batch,
                     std::int64_t head, std::int64_t index, T* copy) {
  const KeyPanels<T>& panels = problem.key_panels;
  if constexpr (std::is_same_v<T, float>)
    if (!panels.is_compute_dtype()) {
      const std::uint16_t* const halves = panels.half_panel(batch, head, index);
      const std::int64_t head_dim = problem.shape.head_dim;
      if (by_pairs) return reinterpret_cast<const T*>(halves);
      if (panels.are_pairs())
        widen_pairs(halves, head_dim / 2, panel_keys, copy);
      else
        widen_rows(halves, panels.elements(), panel_keys, head_dim, panel_keys, copy, panel_keys);
      return copy;
    }
  return panels.panel(batch, head, index);
}

// The keys of a panel from a column on, as score_tile takes them.
template <class T>
Rows<T> keys_from(const PairwiseProblem<T>& problem, const T* panel, std::int64_t column, std::int64_t width) {
  if (problem.score_weight) return {panel + column * width, width};
  return {panel + column, panel_keys};
}

template <class T>
struct ScoreTile {
  std::int64_t rows, columns;
  Rows<T> queries, keys;
  T* scores;  // row r at scores + r·score_row, in whole vectors
  std::int64_t score_row;
  std::int64_t panel = 0;  // from one panel of keys to the next, where columns are of several
  T* tangents = nullptr;   // of an additive score, where they are kept
  bool streamed = false;   // whether keys come from memory; they are those of one panel then, or pairs of them
};

// Of pairs that the machine does not multiply, or not as fast.
template <class T>
void streamed_pairs(std::int64_t rows, std::int64_t vectors, std::int64_t pairs, const ProductOperands<T>& x) {
  if constexpr (std::is_same_v<T, float>)
    streamed_product<T, BFloat16Pair>(
        rows, vectors, pairs, {x.a, x.a_row, reinterpret_cast<const BFloat16Pair*>(x.b), x.b_row, x.c, x.c_row});
}

// The scores of a tile, without the scale: products of queries and keys, or of their pairs, or additive scores.
template <class T>
void score_tile(const PairwiseProblem<T>& problem, const PairProduct* by_pairs, std::int64_t query_head,
                const ScoreTile<T>& x) {
  const std::int64_t inner = problem.shape.head_dim, vectors = vectors_of<T>(x.columns);
  const ProductOperands<T> product_of{x.queries.data, x.queries.stride, 1,           x.keys.data,
                                      x.keys.stride,  x.scores,         x.score_row, x.panel};
  if (by_pairs)
    product_of_pairs<T>(*by_pairs, x.rows, vectors, inner / 2, product_of, x.streamed);
  else if (problem.score_weight)
    additive_scores<T>(x.rows, x.columns, inner,
                       {x.queries.data, x.queries.stride, x.keys.data, x.keys.stride,
                        problem.score_weight + query_head * inner, x.scores, x.score_row, x.tangents});
  else if (x.streamed && !problem.key_panels.is_compute_dtype())
    streamed_pairs<T>(x.rows, vectors, inner / 2, product_of);
  else if (x.streamed)
    streamed_product<T, T>(x.rows, vectors, inner,
                           {x.queries.data, x.queries.stride, x.keys.data, x.keys.stride, x.scores, x.score_row});
  else
    product<T>(x.rows, vectors, inner, product_of);
}

// Whether rows can be read in whole vectors in place.
template <class T>
bool lies_in_whole_vectors(const HeadsView<const T>& view, std::int64_t width) {
  return view.is_compute_dtype() && width % Vector<T>::lanes == 0;
}

// Rows of whole vectors, 0 beyond width: in place if possible, else in `copy`.
template <class T>
Rows<T> in_whole_vectors(const HeadsView<const T>& view, std::int64_t batch, std::int64_t head, std::int64_t first,
                         std::int64_t count, std::int64_t width, T* copy) {
  if (lies_in_whole_vectors(view, width)) return {view.row(batch, head, first), view.row_stride()};
  if constexpr (std::is_same_v<T, float>)
    if (!view.is_compute_dtype()) {
      widen_rows(view.half_row(batch, head, first), view.elements(), view.row_stride(), count, width, copy,
                 padded<T>(width));
      return {copy, padded<T>(width)};
    }
  for (std::int64_t r = 0; r < count; ++r)
    copy_scaled(view.row(batch, head, first + r), width, Vector<T>(T(1)), copy + r * padded<T>(width));
  return {copy, padded<T>(width)};
}

// Whole vectors, times `factor`, into a row of a view, of whatever type its elements are. Overwrites `from`.
template <class T>
HWY_INLINE void store_row(T* from, std::int64_t width, Vector<T> factor, const HeadsView<T>& view, std::int64_t batch,
                          std::int64_t head, std::int64_t index) {
  if constexpr (std::is_same_v<T, float>)
    if (!view.is_compute_dtype()) {
      store_scaled(from, width, factor, from);
      round_row(from, width, view.elements(), view.half_row(batch, head, index));
      return;
    }
  store_scaled(from, width, factor, view.row(batch, head, index));
}

// Whether any of the values is infinite or NaN.
template <class T>
bool any_non_finite(const Rows<T>& rows, std::int64_t count, std::int64_t width) {
  using V = Vector<T>;
  constexpr std::int64_t chains = 4;  // a single one would wait for its additions
  const std::int64_t whole = width / V::lanes * V::lanes, in_chains = width / (chains * V::lanes) * chains * V::lanes;
  V probe[chains] = {V(T(0)), V(T(0)), V(T(0)), V(T(0))};  // 0·x is NaN unless x is finite
  T tail_probe = 0;
  for (std::int64_t r = 0; r < count; ++r) {
    const T* row = rows.row(r);
    for (std::int64_t x = 0; x < in_chains; x += chains * V::lanes)
      for (std::int64_t c = 0; c < chains; ++c) probe[c] = V::fma(V::load(row + x + c * V::lanes), V(T(0)), probe[c]);
    for (std::int64_t x = in_chains; x < whole; x += V::lanes) probe[0] = V::fma(V::load(row + x), V(T(0)), probe[0]);
    for (std::int64_t x = whole; x < width; ++x) tail_probe += row[x] * T(0);
  }
  const T sum = ((probe[0] + probe[1]) + (probe[2] + probe[3])).sum() + tail_probe;
  return sum != sum;
}

template <class T>
T dot(const T* a, const T* b, std::int64_t width) {
  using V = Vector<T>;
  const std::int64_t whole = width / V::lanes * V::lanes;
  V sum(T(0));
  for (std::int64_t x = 0; x < whole; x += V::lanes) sum = V::fma(V::load(a + x), V::load(b + x), sum);
  T total = sum.sum();
  for (std::int64_t x = whole; x < width; ++x) total += a[x] * b[x];
  return total;
}

// Columns [first, end) of the products of `count` rows of a with rows of b, and 0 to the end of the vector.
template <class T>
void dot_products(const Rows<T>& a, std::int64_t count, const Rows<T>& b, std::int64_t first, std::int64_t end,
                  std::int64_t width, T* products, std::int64_t product_row) {
  for (std::int64_t r = 0; r < count; ++r) {
    T* const to = products + r * product_row;
    for (std::int64_t j = first; j < end; ++j) to[j] = dot(a.row(r), b.row(j), width);
    std::fill(to + end, to + padded<T>(end), T(0));
  }
}

// A tile's row of scores: columns [begin, end) are visible, vectors cover [first, last).
struct RowSpan {
  std::int64_t first, last, begin, end;
};

// The spans of the rows of a group: queries from `first_query`, columns [first, last) of the keys from `first_key`.
struct SpanOfRow {
  const Visibility& visibility;
  std::int64_t first_query, first_key, first, last;

  RowSpan operator()(std::int64_t row) const {
    const KeyRange range = visibility.of(first_query + row);
    return {first, last, range.begin - first_key, std::min(range.end - first_key, last)};
  }
};

// The visible lanes of a vector: all of them, or those of a mask.
template <class T>
struct AllLanes {
  HWY_INLINE Vector<T> operator()(Vector<T> value) const { return value; }
  HWY_INLINE Vector<T> or_else(Vector<T> value, Vector<T>) const { return value; }
};
template <class T>
struct SomeLanes {
  typename Vector<T>::Mask mask;
  HWY_INLINE Vector<T> operator()(Vector<T> value) const { return Vector<T>::select_or_zero(mask, value); }
  HWY_INLINE Vector<T> or_else(Vector<T> value, Vector<T> hidden) const {
    return Vector<T>::select(mask, value, hidden);
  }
};

// Calls body(x, visible) for every vector of the span: visible(value) is 0 in hidden lanes. Most vectors lie within the
// edges and need no mask, unless a bias may hide keys, where `scores` holds −∞.
template <bool may_hide, class T, class Body>
HWY_INLINE void for_each_vector(const RowSpan& span, const T* scores, Body&& body) {
  using V = Vector<T>;
  if constexpr (may_hide) {
    for (std::int64_t x = span.first; x < span.last; x += V::lanes) {
      const typename V::Mask within = V::lanes_within(span.begin - x, span.end - x);
      const typename V::Mask hidden = V::load(scores + x) == V(-std::numeric_limits<T>::infinity());
      body(x, SomeLanes<T>{hn::AndNot(hidden, within)});
    }
  } else {
    for (std::int64_t x = span.first; x < span.last; x += V::lanes)
      if (x >= span.begin && x + V::lanes <= span.end)
        body(x, AllLanes<T>());
      else
        body(x, SomeLanes<T>{V::lanes_within(span.begin - x, span.end - x)});
  }
}

// N and N′ of `count` ≤ lanes rows from their totals; rows without a visible key get N = 1, N′ = 0.
template <class Map, class T>
struct RowTotals {
  T value[Vector<T>::lanes], derivative[Vector<T>::lanes];
  std::array<std::array<T, Vector<T>::lanes>, parameter_count<Map>> parameter_derivative;
};

template <class Map, class T>
HWY_INLINE RowTotals<Map, T> row_totals(const Differentiated<Map>& map, const T* mass, const T* shift, const T* visible,
                                        std::int64_t count) {
  using V = Vector<T>;
  const V keys = V::load_first(visible, count);
  const Row<V> row{.visible = keys, .shift = V::load_first(shift, count)};
  const auto normalizer = map.normalizer_with_derivatives(V::load_first(mass, count), row);
  RowTotals<Map, T> totals;
  V::select(keys > V(T(0)), normalizer.value, V(T(1))).store(totals.value);
  V::select(keys > V(T(0)), normalizer.derivative, V(T(0))).store(totals.derivative);
  for (std::size_t p = 0; p < parameter_count<Map>; ++p)
    V::select(keys > V(T(0)), normalizer.parameter_derivatives[p], V(T(0)))
        .store(totals.parameter_derivative[p].data());
  return totals;
}

}  // namespace cogwheel::HWY_NAMESPACE
