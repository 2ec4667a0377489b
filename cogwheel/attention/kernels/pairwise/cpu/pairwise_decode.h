// Pairwise attention of few queries over many keys: the forward engine's arithmetic, split over the keys.
//
// A task takes the rows of every query head that reads one value head, against one chunk of the keys. It reads panels
// of 64 keys where a cache keeps them so, or else transposes 64 keys at a time into scratch that stays in the
// first-level cache, scores all rows, computes the weights of 256 keys at a time and adds their values, so that each
// key and value is read from memory once. Its partial result is the shift m_c, the mass G_c and the sums of each row;
// these are merged exactly, in the order of the chunks:
//   m = max_c m_c,   G = Σ_c exp(m_c − m) G_c,   Σ_j f(s_j) v_j = Σ_c exp(m_c − m) sums_c
// A sink is a lower bound of every m_c and no part of any G_c, so that it counts once, in N.
// Chunks follow from the number of keys alone: the result is the same for any number of threads, and whatever the
// batch.
#pragma once
#include <vector>

#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_forward.h"

namespace cogwheel::HWY_NAMESPACE {

template <class Map, class T>
class DecodeEngine : ForwardEngine<Map, T> {
  using Forward = ForwardEngine<Map, T>;
  using V = Vector<T>;
  using Forward::block_keys, Forward::has_energy;
  using Forward::problem_, Forward::shape_, Forward::modified_, Forward::by_pairs_, Forward::group_rows_,
      Forward::panel_width_, Forward::value_width_;
  using typename Forward::Buffers;
  // So that a task is long compared with the cost of starting it, and few partial results are merged.
  static constexpr std::int64_t min_chunk_keys = 512, max_chunks = 64;
  // So that values that are widened stay in the first-level cache, as does what of a wide value another tile takes.
  static constexpr std::int64_t value_rows = 64;
  static constexpr std::int64_t max_queries = 16, max_rows = 128;

  // Besides the rows' buffers, and unless they can be read in place, one panel of keys and a few values.
  struct Memory {
    Buffers rows;
    T *panel, *key_rows, *values;
  };

  // Partial results of chunk c for row r of a value head: sums at [c][r][value_width], mass and shift at [r][c].
  struct Partial {
    T *sums, *mass, *shift;
  };

 public:
  explicit DecodeEngine(const PairwiseForward<T>& problem)
      : Forward(problem),
        query_width_(by_pairs_ ? shape_.head_dim / 2 : shape_.head_dim),
        heads_(shape_.query_heads_per_value_head()),
        rows_(heads_ * shape_.queries),
        chunk_keys_(std::max(min_chunk_keys, whole_blocks((shape_.keys + max_chunks - 1) / max_chunks))),
        chunks_(std::max<std::int64_t>((shape_.keys + chunk_keys_ - 1) / chunk_keys_, 1)) {}

  // For few rows per shared key. With more, from 16 queries on, or from 8 where keys are few, packing keys once for all
  // rows is cheaper. Statistics are summed by the other engine only.
  static bool serves(const PairwiseForward<T>& problem) {
    const PairwiseShape& shape = problem.shape;
    return !problem.statistics.wanted() && !problem.identity_values &&
           shape.queries <= (shape.keys < min_chunk_keys ? max_queries / 2 : max_queries) &&
           shape.queries * shape.query_heads_per_value_head() <= max_rows;
  }

  void run(const Executor& executor) const {
    const std::int64_t value_heads = shape_.batch * shape_.value_heads;
    WorkspaceLayout measured;
    take_visible(measured);
    for (std::int64_t head = 0; head < value_heads; ++head) take_partial(measured);
    WorkspaceLayout layout(thread_workspace(Scratch::call, measured.bytes()));
    T* visible = take_visible(layout);
    std::vector<Partial> partials(static_cast<std::size_t>(value_heads));
    for (Partial& partial : partials) partial = take_partial(layout);

    count_all_visible(executor, visible);
    executor.run(value_heads * chunks_, [&](std::int64_t index, int) {
      const std::int64_t head = index / chunks_;
      attend_chunk(head, index % chunks_, visible, partials[static_cast<std::size_t>(head)]);
    });
    if (chunks_ > 1)
      executor.run(value_heads,
                   [&](std::int64_t head, int) { merge(head, visible, partials[static_cast<std::size_t>(head)]); });
  }

 private:
  static constexpr std::int64_t whole_blocks(std::int64_t keys) {
    return (keys + block_keys - 1) / block_keys * block_keys;
  }

  T* take_visible(WorkspaceLayout& layout) const {
    return layout.take<T>(static_cast<std::size_t>(shape_.batch * shape_.query_heads * shape_.queries));
  }

  Partial take_partial(WorkspaceLayout& layout) const {
    const auto count = [&](std::int64_t each) { return static_cast<std::size_t>(chunks_ > 1 ? rows_ * each : 0); };
    return {layout.take<T>(count(chunks_ * value_width_)), layout.take<T>(count(padded<T>(chunks_))),
            layout.take<T>(count(padded<T>(chunks_)))};
  }

  // For rows alone, as merging needs them, or with scores and keys.
  Buffers take_rows(WorkspaceLayout& layout, bool with_scores) const {
    const auto rows = static_cast<std::size_t>(rows_ + V::lanes);
    const auto scored = [&](std::int64_t each) { return static_cast<std::size_t>(with_scores ? each : 0); };
    Buffers buffers{};
    buffers.scores = layout.take<T>(scored(rows_ * block_keys));
    buffers.sums = layout.take<T>(rows * static_cast<std::size_t>(value_width_));
    buffers.mass = layout.take<T>(rows * V::lanes);
    buffers.shift = layout.take<T>(rows + V::lanes);
    buffers.alpha = layout.take<T>(rows + V::lanes);
    buffers.visible = layout.take<T>(rows);
    buffers.energy_bias = layout.take<T>(scored(modified_ ? group_rows_ * block_keys : 0));
    buffers.multipliers = layout.take<T>(scored(modified_ ? group_rows_ * block_keys : 0));
    buffers.queries = layout.take<T>(scored(rows_ * shape_.head_dim));
    return buffers;
  }

  Memory take_memory(WorkspaceLayout& layout) const {
    Memory memory;
    memory.rows = take_rows(layout, true);
    memory.panel = layout.take<T>(reads_panels() ? 0 : static_cast<std::size_t>(panel_keys * panel_width_));
    memory.key_rows =
        layout.take<T>(this->key_rows_widened() ? static_cast<std::size_t>(panel_keys * shape_.head_dim) : 0);
    const bool copied = !lies_in_whole_vectors(problem_.value, shape_.value_dim);
    memory.values = layout.take<T>(copied ? static_cast<std::size_t>(value_rows * value_width_) : 0);
    return memory;
  }

  // The buffers from row `row` on.
  Buffers from_row(Buffers buffers, std::int64_t row) const {
    if (buffers.scores) buffers.scores += row * block_keys;
    buffers.sums += row * value_width_;
    buffers.mass += row * V::lanes;
    buffers.shift += row;
    buffers.alpha += row;
    buffers.visible += row;
    return buffers;
  }

  // Rows lie by sub-head, so that those that read one key head are together: head k of a value head begins at row
  // first_row(k).
  std::int64_t first_row(std::int64_t head) const {
    return (head % shape_.sub_heads * (heads_ / shape_.sub_heads) + head / shape_.sub_heads) * shape_.queries;
  }

  std::vector<QueryHead<Map>> query_heads(std::int64_t value_head) const {
    std::vector<QueryHead<Map>> heads;
    heads.reserve(static_cast<std::size_t>(heads_));
    for (std::int64_t k = 0; k < heads_; ++k)
      heads.push_back(
          query_head_of<Map>(problem_, value_head / shape_.value_heads, value_head % shape_.value_heads * heads_ + k));
    return heads;
  }

  // Once for all chunks: with biases, which may hide keys, it reads a whole row.
  void count_all_visible(const Executor& executor, T* visible) const {
    const auto count = [&](std::int64_t head, int) {
      count_visible_keys(problem_, query_head_of<Map>(problem_, head / shape_.query_heads, head % shape_.query_heads),
                         0, shape_.queries, visible + head * shape_.queries);
    };
    const std::int64_t heads = shape_.batch * shape_.query_heads;
    if (problem_.modifiers.bias.data || problem_.modifiers.energy_bias.data)
      executor.run(heads, count);
    else
      SerialExecutor().run(heads, count);
  }

  void begin_rows(const QueryHead<Map>& head, const T* visible, const Buffers& rows) const {
    V(Forward::initial_shift(head.map)).store(rows.alpha);
    std::fill_n(rows.shift, shape_.queries, rows.alpha[0]);
    std::fill_n(rows.sums, shape_.queries * value_width_, T(0));
    std::fill_n(rows.mass, shape_.queries * V::lanes, T(0));
    std::copy_n(visible + (head.batch * shape_.query_heads + head.index) * shape_.queries, shape_.queries,
                rows.visible);
  }

  void copy_queries(const QueryHead<Map>& head, T* to) const {
    const Rows<T> rows = by_pairs_
                             ? pairs_of(problem_.query, head.batch, head.index, 0)
                             : rows_of(problem_.query, head.batch, head.index, 0, shape_.queries, shape_.head_dim, to);
    if (rows.data == to) return;
    for (std::int64_t i = 0; i < shape_.queries; ++i) std::copy_n(rows.row(i), query_width_, to + i * query_width_);
  }

  void attend_chunk(std::int64_t value_head, std::int64_t chunk, const T* visible, const Partial& partial) const {
    const PairProductUse use(by_pairs_);
    WorkspaceLayout measured;
    take_memory(measured);
    WorkspaceLayout layout(thread_workspace(Scratch::task, measured.bytes()));
    const Memory memory = take_memory(layout);
    const std::vector<QueryHead<Map>> heads = query_heads(value_head);
    KeyRange seen{shape_.keys, 0};
    std::fill_n(memory.rows.shift, rows_ + V::lanes, T(0));  // whole vectors of rows, as in forward
    for (std::int64_t k = 0; k < heads_; ++k) {
      const QueryHead<Map>& head = heads[static_cast<std::size_t>(k)];
      begin_rows(head, visible, from_row(memory.rows, first_row(k)));
      copy_queries(head, memory.rows.queries + first_row(k) * query_width_);
      const KeyRange by_any = head.visibility.seen_by_any(0, shape_.queries);
      if (by_any.size() > 0) seen = {std::min(seen.begin, by_any.begin), std::max(seen.end, by_any.end)};
    }
    seen = {std::max(seen.begin, chunk * chunk_keys_), std::min(seen.end, (chunk + 1) * chunk_keys_)};
    for (std::int64_t first_key = seen.begin / panel_keys * panel_keys; first_key < seen.end; first_key += block_keys)
      attend_block(heads, seen, first_key, memory);

    if (chunks_ > 1) return leave(chunk, memory.rows, partial);
    for (std::int64_t k = 0; k < heads_; ++k)
      Forward::finish(heads[static_cast<std::size_t>(k)], 0, shape_.queries, from_row(memory.rows, first_row(k)));
  }

  // All rows against up to 256 keys.
  void attend_block(const std::vector<QueryHead<Map>>& heads, const KeyRange& seen, std::int64_t first_key,
                    const Memory& memory) const {
    const std::int64_t begin = std::max<std::int64_t>(seen.begin - first_key, 0);
    const std::int64_t end = std::min(seen.end - first_key, block_keys);
    const std::int64_t first = begin / V::lanes * V::lanes, last = padded<T>(end);
    score(heads, first_key, first, end, memory);
    ask_for_values(heads, first_key + first);
    bool some_hidden = modified_;
    // In the order of the rows: α is written in whole vectors, which extend into the following rows.
    for (std::int64_t c = 0; c < shape_.sub_heads; ++c)
      for (std::int64_t k = c; k < heads_; k += shape_.sub_heads)
        for (std::int64_t r = 0; r < shape_.queries; r += group_rows_)
          some_hidden |= weigh(heads[static_cast<std::size_t>(k)], r, std::min(group_rows_, shape_.queries - r),
                               first_key, first, last, from_row(memory.rows, first_row(k) + r));
    add_values(heads, first_key, first, end, some_hidden, memory);
  }

  // Products of every row with columns [first, end), panel by panel.
  void score(const std::vector<QueryHead<Map>>& heads, std::int64_t first_key, std::int64_t first, std::int64_t end,
             const Memory& memory) const {
    const std::int64_t batch = heads.front().batch, rows_of_sub_head = rows_ / shape_.sub_heads;
    for (std::int64_t c = 0; c < shape_.sub_heads; ++c) {
      const std::int64_t key_head = shape_.key_head(heads[static_cast<std::size_t>(c)].index);
      for (std::int64_t x = first; x < end;) {
        const std::int64_t from = x / panel_keys * panel_keys, to = std::min(from + panel_keys, end);
        const T* const panel = panel_of_keys(batch, key_head, first_key + from, to - from, memory);
        const auto tile = [&](std::int64_t row, std::int64_t rows, std::int64_t query_head) {
          score_tile<T>(problem_, by_pairs_, query_head,
                        {rows,
                         to - x,
                         {memory.rows.queries + row * query_width_, query_width_},
                         keys_from(problem_, panel, x - from, panel_width_),
                         memory.rows.scores + row * block_keys + x,
                         block_keys,
                         0,
                         nullptr,
                         reads_panels()});
        };
        if (!problem_.score_weight)
          tile(c * rows_of_sub_head, rows_of_sub_head, 0);
        else  // each query head has its own score weights
          for (std::int64_t k = c; k < heads_; k += shape_.sub_heads)
            tile(first_row(k), shape_.queries, heads[static_cast<std::size_t>(k)].index);
        x = to;
      }
    }
  }

  // In place: unlike forward, which reads them once for each block of queries, also those that must be widened.
  bool reads_panels() const { return has_panels_in_place(problem_, by_pairs_) || problem_.key_panels.are_pairs(); }

  // Up to 64 keys from `first`, a multiple of 64, as score_tile takes them.
  const T* panel_of_keys(std::int64_t batch, std::int64_t key_head, std::int64_t first, std::int64_t count,
                         const Memory& memory) const {
    if constexpr (std::is_same_v<T, float>)
      if (reads_panels() && !problem_.key_panels.is_compute_dtype())
        return reinterpret_cast<const T*>(problem_.key_panels.half_panel(batch, key_head, first / panel_keys));
    if (problem_.key_panels.any())
      return whole_panel(problem_, by_pairs_, batch, key_head, first / panel_keys, memory.panel);
    const Rows<T> keys = by_pairs_
                             ? pairs_of(problem_.key, batch, key_head, first)
                             : rows_of(problem_.key, batch, key_head, first, count, shape_.head_dim, memory.key_rows);
    if (keys.data != memory.key_rows && first + 2 * panel_keys <= shape_.keys)
      pack_keys<true>(problem_, keys, count, panel_width_, memory.panel);
    else
      pack_keys(problem_, keys, count, panel_width_, memory.panel);
    return memory.panel;
  }

  // Turns scores of up to 6 queries from r into weights; returns whether any key is hidden from any of them.
  bool weigh(const QueryHead<Map>& head, std::int64_t r, std::int64_t rows, std::int64_t first_key, std::int64_t first,
             std::int64_t last, const Buffers& buffers) const {
    const SpanOfRow span_of{head.visibility, r, first_key, first, last};
    const KeyRange by_all = head.visibility.seen_by_all(r, rows);
    const bool some_hidden = by_all.begin - first_key > first || by_all.end - first_key < last;
    if (modified_) {
      modify_tile(problem_, has_energy, {head.batch, head.output_head, r, rows, first_key, first, last, block_keys},
                  {buffers.scores, buffers.energy_bias, buffers.multipliers});
      this->template weigh_group<true>(head.map, rows, span_of, buffers, 0, buffers.shift);
    } else {
      this->template weigh_group<false>(head.map, rows, span_of, buffers, 0, buffers.shift);
    }
    return some_hidden;
  }

  // sums ← α·sums + weights · values, columns [first, end) of the weights.
  void add_values(const std::vector<QueryHead<Map>>& heads, std::int64_t first_key, std::int64_t first,
                  std::int64_t end, bool some_hidden, const Memory& memory) const {
    for (std::int64_t x = first; x < end; x += value_rows) {
      if (x + value_rows >= end) ask_for_keys(heads, first_key + block_keys);
      const bool begins = x == first;
      add_value_rows(heads, first_key, x, std::min(x + value_rows, end), some_hidden, begins, memory);
    }
  }

  // The same for a few of the columns; `begins`: the first of them, with α.
  void add_value_rows(const std::vector<QueryHead<Map>>& heads, std::int64_t first_key, std::int64_t first,
                      std::int64_t end, bool some_hidden, bool begins, const Memory& memory) const {
    const HeadsView<const T>& view = problem_.value;
    const std::int64_t batch = heads.front().batch, value_head = shape_.value_head(heads.front().index);
    const std::int64_t vectors = vectors_of<T>(value_width_), count = end - first;
    const auto streamed = [&]<class Element>(const Element* rows, std::int64_t stride) {
      streamed_product<T, Element>(rows_, vectors, count,
                                   {memory.rows.scores + first, block_keys, rows, stride, memory.rows.sums,
                                    value_width_, true, has_energy && begins ? memory.rows.alpha : nullptr});
    };
    if constexpr (std::is_same_v<T, float>)
      if (!some_hidden && view.elements() == Elements::bfloat16 && value_width_ == shape_.value_dim)
        return streamed(reinterpret_cast<const BFloat16*>(view.half_row(batch, value_head, first_key + first)),
                        view.row_stride());
    const Rows<T> values =
        in_whole_vectors(view, batch, value_head, first_key + first, count, shape_.value_dim, memory.values);
    const bool careful = some_hidden && any_non_finite(values, count, shape_.value_dim);
    if (!careful && values.data != memory.values) return streamed(values.data, values.stride);
    const auto add = [&](std::int64_t row, std::int64_t rows, std::int64_t x, std::int64_t columns, bool rescales) {
      const ProductOperands<T> operands{
          memory.rows.scores + row * block_keys + x, block_keys,  1, values.row(x - first), values.stride,
          memory.rows.sums + row * value_width_,     value_width_};
      if (has_energy && rescales)
        rescale_add_product<T>(rows, vectors, columns, operands, memory.rows.alpha + row);
      else
        add_product<T>(rows, vectors, columns, operands);
    };
    if (!careful) return add(0, rows_, first, count, begins);
    // 0·NaN is NaN: each row takes just the values that it sees.
    if (begins) add(0, rows_, first, 0, true);
    for (std::int64_t k = 0; k < heads_; ++k)
      for (std::int64_t i = 0; i < shape_.queries; ++i) {
        const QueryHead<Map>& head = heads[static_cast<std::size_t>(k)];
        const KeyRange range = head.visibility.of(i);
        for (std::int64_t x = first; x < end; ++x) {
          const std::int64_t key = first_key + x;
          if (key >= range.begin && key < range.end && !hides(problem_.modifiers, head.batch, head.output_head, i, key))
            add(first_row(k) + i, 1, x, 1, false);
        }
      }
  }

  // The processor sees by itself that memory is read in order, but not where reading goes on elsewhere.
  static void ask_for(const void* begin) {
    constexpr int lines = 32, line = 64;
    for (int i = 0; i < lines; ++i) __builtin_prefetch(static_cast<const char*>(begin) + i * line, 0, 2);
  }

  void ask_for_values(const std::vector<QueryHead<Map>>& heads, std::int64_t key) const {
    const std::int64_t batch = heads.front().batch, value_head = shape_.value_head(heads.front().index);
    if constexpr (std::is_same_v<T, float>)
      if (!problem_.value.is_compute_dtype()) return ask_for(problem_.value.half_row(batch, value_head, key));
    ask_for(problem_.value.row(batch, value_head, key));
  }

  void ask_for_keys(const std::vector<QueryHead<Map>>& heads, std::int64_t key) const {
    if (!problem_.key_panels.any() || key >= shape_.keys) return;
    const std::int64_t batch = heads.front().batch, key_head = shape_.key_head(heads.front().index),
                       panel = key / panel_keys;
    if constexpr (std::is_same_v<T, float>)
      if (!problem_.key_panels.is_compute_dtype())
        return ask_for(problem_.key_panels.half_panel(batch, key_head, panel));
    ask_for(problem_.key_panels.panel(batch, key_head, panel));
  }

  void leave(std::int64_t chunk, const Buffers& rows, const Partial& partial) const {
    std::copy_n(rows.sums, rows_ * value_width_, partial.sums + chunk * rows_ * value_width_);
    for (std::int64_t r = 0; r < rows_; ++r) {
      partial.mass[r * padded<T>(chunks_) + chunk] = V::load(rows.mass + r * V::lanes).sum();
      partial.shift[r * padded<T>(chunks_) + chunk] = rows.shift[r];
    }
  }

  void merge(std::int64_t value_head, const T* visible, const Partial& partial) const {
    WorkspaceLayout measured;
    take_rows(measured, false);
    WorkspaceLayout layout(thread_workspace(Scratch::task, measured.bytes()));
    const Buffers rows = take_rows(layout, false);
    const std::vector<QueryHead<Map>> heads = query_heads(value_head);
    for (std::int64_t k = 0; k < heads_; ++k) {
      const QueryHead<Map>& head = heads[static_cast<std::size_t>(k)];
      const Buffers of_head = from_row(rows, first_row(k));
      begin_rows(head, visible, of_head);
      for (std::int64_t i = 0; i < shape_.queries; ++i) merge_row(first_row(k) + i, partial, from_row(of_head, i));
      Forward::finish(head, 0, shape_.queries, of_head);
    }
  }

  void merge_row(std::int64_t row, const Partial& partial, const Buffers& merged) const {
    const T* shift = partial.shift + row * padded<T>(chunks_);
    const T* mass = partial.mass + row * padded<T>(chunks_);
    *merged.shift = std::max(*merged.shift, *std::max_element(shift, shift + chunks_));
    T factors[max_chunks];
    const V now(*merged.shift);
    for (std::int64_t c = 0; c < chunks_; c += V::lanes) {
      const V before = V::load(shift + c);
      // Equal shifts first: −∞ − −∞ of a row that sees no key would be NaN.
      V::select(before == now, V(T(1)), V::exp(before - now)).store(factors + c);
    }
    for (std::int64_t c = 0; c < chunks_; ++c) {
      const T* sums = partial.sums + (c * rows_ + row) * value_width_;
      const V factor(factors[c]);
      for (std::int64_t x = 0; x < value_width_; x += V::lanes)
        V::fma(factor, V::load(sums + x), V::load(merged.sums + x)).store(merged.sums + x);
      *merged.mass += factors[c] * mass[c];
    }
  }

  std::int64_t query_width_;   // in elements or pairs
  std::int64_t heads_, rows_;  // of a value head: query heads, and their queries
  std::int64_t chunk_keys_, chunks_;
};

}  // namespace cogwheel::HWY_NAMESPACE
