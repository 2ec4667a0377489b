// Pairwise attention backward: scores are recomputed tile by tile, so that nothing of size queries × keys is kept.
//
// A task owns a chunk of the keys of one value head: only it writes their gradients, summed in order over the query
// heads that share them. The gradient of a query is summed over the chunks; their number follows from the shape alone
// and their parts are added in index order, so that gradients are the same bit for bit for any number of workers.
#pragma once
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_rows.h"
#include "cogwheel/attention/kernels/pairwise/cpu/partial_gradients.h"

namespace cogwheel::HWY_NAMESPACE {

template <class Map, class T>
class BackwardEngine {
  using V = Vector<T>;
  static constexpr bool has_energy = EnergyMap<Map, V>;
  static constexpr std::size_t parameters = parameter_count<Map>;
  static constexpr std::int64_t most_queries_of_block = 2 * panel_keys;  // whose pairs are at most the rows of a panel
  static constexpr std::int64_t wanted_tasks = 16;
  static constexpr std::int64_t partial_bytes = std::int64_t{64} << 20;

  struct Buffers {
    T *key_panel, *value_panel;    // [width][64]
    T* key_rows;                   // [64][head_dim], padded
    T *weights, *score_gradients;  // of a block, or of a group where later products take the pairs below [rows][64]
    T *gradients, *deltas;         // do/N [queries][value_dim] where they are read, (do·o) N′/N [queries]
    T* visible;                    // number of keys that a query sees [queries]
    T* inverses;                   // 1/N [queries], where do is multiplied as bfloat16 pairs
    T* queries;                    // copy in whole vectors, unless they can be read in place or as pairs
    // Pairs of two rows: of keys [32], and of queries and do [queries/2].
    T *key_pairs, *query_pairs, *gradient_pairs;
    // Rounded: the score gradients of a group in pairs of two keys [group][64], and of a block in pairs of two queries
    // [block/2][64], beside the weights over N; for products that do not read columns also transposed, [64][64].
    T *rounded_group, *rounded_score_gradients, *rounded_weights, *transposed;
    T* selected;  // pairs of rows that one key sees, or of keys that one row sees [64][width]
    // Widened copies of other rows, where their elements are of another type: [64][value_dim], [lanes][value_dim]
    T *value_rows, *gradient_rows, *output_rows;
    T* query_gradient;                 // [queries][head_dim]
    T *key_gradient, *value_gradient;  // [chunk][width]
    bool* query_has_non_finite;        // [blocks of 64 queries]
    // For a modified group [group_rows_][64]: its modifiers, the part of the loss that goes through each weight, and
    // the gradient of each exponent.
    T *energy_bias, *multipliers, *contributions, *exponent_gradients;
    T* softcap_derivatives;   // null where scores are not capped
    double* center_gradient;  // [queries]
    // For an additive score: the tangents of a tile [group_rows_][64][head_dim], and the gradients of v [head_dim].
    T* tangents;
    double* score_weight_gradient;
  };

  struct Chunk {
    std::int64_t index, begin, end;  // keys
  };

 public:
  explicit BackwardEngine(const PairwiseBackward<T>& problem)
      : problem_(problem),
        shape_(problem.shape),
        modified_(problem.modifiers.any()),
        hides_keys_(modified_ || problem.visibility.differs_by_query()),
        scores_by_pairs_(problem.score_weight ? nullptr
                                              : pair_product_for(problem, problem.query, problem.key, shape_.head_dim)),
        values_by_pairs_(problem.identity_values
                             ? nullptr
                             : pair_product_for(problem, problem.output_gradient, problem.value, shape_.value_dim)),
        score_gradients_by_pairs_(problem.score_weight || problem.query.elements() != Elements::bfloat16
                                      ? nullptr
                                      : pair_product_with_rows(problem, problem.key)),
        weights_by_pairs_(problem.identity_values ? nullptr : pair_product_with_rows(problem, problem.output_gradient)),
        group_rows_(group_rows_of(problem, scores_by_pairs_)),
        block_queries_(most_queries_of_block / group_rows_ * group_rows_),
        keeps_block_(
            !((score_gradients_by_pairs_ || problem.score_weight) && (weights_by_pairs_ || problem.identity_values))),
        key_width_(padded<T>(shape_.head_dim)),
        value_width_(padded<T>(shape_.value_dim)),
        chunks_(number_of_chunks()),
        chunk_keys_((panels_of(shape_.keys) + chunks_ - 1) / chunks_ * panel_keys) {}

  void run(const Executor& executor) const {
    const std::int64_t tasks = shape_.batch * shape_.value_heads * chunks_;
    PartialGradients<T> partials(problem_, chunks_, static_cast<std::int64_t>(parameters));
    WorkspaceLayout measured;
    partials.lie_in(measured);
    WorkspaceLayout layout(thread_workspace(Scratch::call, measured.bytes()));
    partials.lie_in(layout);
    executor.run(tasks, [&](std::int64_t index, int) {
      // The first chunk of a causal problem is seen by most queries: the longest tasks first.
      const std::int64_t heads = shape_.batch * shape_.value_heads;
      const std::int64_t head = index % heads;
      differentiate(head / shape_.value_heads, head % shape_.value_heads, index / heads, partials);
    });
    partials.add_up(executor);
  }

 private:
  bool is_additive() const { return problem_.score_weight != nullptr; }

  // Which rows are read as whole vectors of T, not as pairs.
  bool reads_queries() const { return !(scores_by_pairs_ && score_gradients_by_pairs_); }
  bool reads_keys() const { return reads_queries(); }
  bool reads_gradients() const { return !(values_by_pairs_ && weights_by_pairs_); }
  bool reads_inverses() const { return values_by_pairs_ || weights_by_pairs_; }

  // The first row of a group in `weights` and `score_gradients`.
  std::int64_t kept_row(std::int64_t r) const { return keeps_block_ ? r : 0; }

  std::int64_t number_of_chunks() const {
    const std::int64_t heads = std::max<std::int64_t>(1, shape_.batch * shape_.value_heads);
    const std::int64_t partial = std::max<std::int64_t>(
        1, shape_.batch * shape_.query_heads * shape_.queries * shape_.head_dim * static_cast<std::int64_t>(sizeof(T)));
    // A chunk costs another pass over the queries of each head: the more heads, the longer it has to be.
    const std::int64_t longest = shape_.keys / (2 * panel_keys * heads);
    const std::int64_t wanted = std::min({(wanted_tasks + heads - 1) / heads, longest, partial_bytes / partial});
    return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, panels_of(shape_.keys)));
  }

  Buffers take_buffers(WorkspaceLayout& layout) const {
    const auto take = [&](std::int64_t count) { return layout.take<T>(static_cast<std::size_t>(count)); };
    Buffers buffers;
    buffers.key_panel = take(is_additive() ? 0 : shape_.head_dim * panel_keys);
    buffers.value_panel = take(problem_.identity_values ? 0 : shape_.value_dim * panel_keys);
    buffers.key_rows =
        take(reads_keys() && !lies_in_whole_vectors(problem_.key, shape_.head_dim) ? panel_keys * key_width_ : 0);
    const std::int64_t kept_rows = keeps_block_ ? block_queries_ : group_rows_;
    buffers.weights = take(kept_rows * panel_keys);
    buffers.score_gradients = take(kept_rows * panel_keys);
    buffers.gradients = take(reads_gradients() ? shape_.queries * value_width_ : 0);
    buffers.deltas = take(shape_.queries);
    buffers.visible = take(shape_.queries);
    buffers.inverses = take(reads_inverses() ? shape_.queries : 0);
    buffers.queries = take(
        reads_queries() && !lies_in_whole_vectors(problem_.query, shape_.head_dim) ? shape_.queries * key_width_ : 0);
    const std::int64_t pairs_of_queries = panels_of(shape_.queries) * panel_keys / 2,
                       pairs_of_block = block_queries_ / 2;
    buffers.key_pairs = take(score_gradients_by_pairs_ ? panel_keys / 2 * key_width_ : 0);
    buffers.query_pairs = take(score_gradients_by_pairs_ ? pairs_of_queries * key_width_ : 0);
    buffers.gradient_pairs = take(weights_by_pairs_ ? pairs_of_queries * value_width_ : 0);
    buffers.rounded_group = take(score_gradients_by_pairs_ ? group_rows_ * panel_keys : 0);
    buffers.rounded_score_gradients = take(score_gradients_by_pairs_ ? pairs_of_block * panel_keys : 0);
    buffers.rounded_weights = take(weights_by_pairs_ ? pairs_of_block * panel_keys : 0);
    const PairProduct* const by_pairs = score_gradients_by_pairs_ ? score_gradients_by_pairs_ : weights_by_pairs_;
    buffers.transposed = take(by_pairs && !by_pairs->reads_columns ? panel_keys * panel_keys : 0);
    buffers.selected = take(by_pairs && hides_keys_ ? panel_keys * std::max(key_width_, value_width_) : 0);
    buffers.value_rows =
        take(problem_.identity_values || problem_.value.is_compute_dtype() ? 0 : panel_keys * shape_.value_dim);
    buffers.gradient_rows = take(problem_.output_gradient.is_compute_dtype() ? 0 : V::lanes * shape_.value_dim);
    buffers.output_rows = take(problem_.output.is_compute_dtype() ? 0 : V::lanes * shape_.value_dim);
    buffers.query_gradient = take(shape_.queries * key_width_);
    buffers.key_gradient = take(chunk_keys_ * key_width_);
    buffers.value_gradient = take(problem_.identity_values ? 0 : chunk_keys_ * value_width_);
    buffers.query_has_non_finite = layout.take<bool>(static_cast<std::size_t>(panels_of(shape_.queries)));
    const std::int64_t modified_tile = modified_ ? group_rows_ * panel_keys : 0;
    buffers.energy_bias = take(modified_tile);
    buffers.multipliers = take(modified_tile);
    buffers.contributions = take(modified_tile);
    buffers.exponent_gradients = take(modified_tile);
    buffers.softcap_derivatives = problem_.modifiers.softcap > 0 ? take(modified_tile) : nullptr;
    buffers.center_gradient =
        layout.take<double>(problem_.centers_gradient ? static_cast<std::size_t>(shape_.queries) : 0);
    buffers.tangents = take(is_additive() ? group_rows_ * panel_keys * key_width_ : 0);
    buffers.score_weight_gradient = layout.take<double>(static_cast<std::size_t>(is_additive() ? shape_.head_dim : 0));
    return buffers;
  }

  // The gradients of one chunk of keys of one value head, and its part of those of the queries.
  void differentiate(std::int64_t batch, std::int64_t value_head, std::int64_t chunk_index,
                     const PartialGradients<T>& partials) const {
    WorkspaceLayout measured;
    take_buffers(measured);
    WorkspaceLayout layout(thread_workspace(Scratch::task, measured.bytes()));
    const Buffers buffers = take_buffers(layout);

    Chunk chunk{.index = chunk_index, .begin = std::min(chunk_index * chunk_keys_, shape_.keys), .end = 0};
    chunk.end = std::min(chunk.begin + chunk_keys_, shape_.keys);
    const std::int64_t keys = chunk.end - chunk.begin;
    const PairProductUse of_scores(scores_by_pairs_), of_values(values_by_pairs_),
        of_score_gradients(score_gradients_by_pairs_), of_weights(weights_by_pairs_);
    // Without sub-heads, the first head writes what others add to.
    const bool written = shape_.sub_heads == 1;
    if (!written && !problem_.identity_values) std::fill_n(buffers.value_gradient, keys * value_width_, T(0));
    for (std::int64_t c = 0; c < shape_.sub_heads; ++c) {
      const std::int64_t key_head = value_head * shape_.sub_heads + c;
      if (!written) std::fill_n(buffers.key_gradient, keys * key_width_, T(0));
      for (std::int64_t h = c; h < shape_.query_heads_per_value_head(); h += shape_.sub_heads)
        differentiate_head(batch, value_head * shape_.query_heads_per_value_head() + h, chunk, written && h == 0,
                           buffers, partials);
      for (std::int64_t j = 0; j < keys; ++j)
        store_row(buffers.key_gradient + j * key_width_, shape_.head_dim, V(problem_.scale), problem_.key_gradient,
                  batch, key_head, chunk.begin + j);
    }
    if (problem_.identity_values) return;
    for (std::int64_t j = 0; j < keys; ++j)
      store_row(buffers.value_gradient + j * value_width_, shape_.value_dim, V(T(1)), problem_.value_gradient, batch,
                value_head, chunk.begin + j);
  }

  // `fresh`: the gradients of keys and values are not yet written.
  void differentiate_head(std::int64_t batch, std::int64_t index, const Chunk& chunk, bool fresh,
                          const Buffers& buffers, const PartialGradients<T>& partials) const {
    const QueryHead<Map> query_head = query_head_of<Map>(problem_, batch, index);
    const std::int64_t head = batch * shape_.query_heads + index;
    std::array<double, parameters> parameter_gradient{};
    std::fill_n(buffers.query_gradient, shape_.queries * key_width_, T(0));
    if (problem_.centers_gradient) std::fill_n(buffers.center_gradient, shape_.queries, 0.0);
    if (is_additive()) std::fill_n(buffers.score_weight_gradient, shape_.head_dim, 0.0);
    const Rows<T> queries = reads_queries() ? in_whole_vectors(problem_.query, batch, index, 0, shape_.queries,
                                                               shape_.head_dim, buffers.queries)
                                            : Rows<T>{};
    prepare_rows(query_head, chunk, queries, buffers, parameter_gradient);
    for (std::int64_t first_key = chunk.begin; first_key < chunk.end; first_key += panel_keys)
      differentiate_panel(query_head, first_key, chunk, fresh, queries, buffers, parameter_gradient);

    for (std::int64_t i = 0; i < shape_.queries; ++i) {
      T* gradient = buffers.query_gradient + i * key_width_;
      if (chunks_ == 1)
        store_row(gradient, shape_.head_dim, V(problem_.scale), problem_.query_gradient, batch, index, i);
      else
        store_scaled(gradient, shape_.head_dim, V(problem_.scale),
                     partials.query(chunk.index, head) + i * shape_.head_dim);
    }
    std::copy_n(parameter_gradient.begin(), parameters, partials.parameter(chunk.index, head));
    if (problem_.centers_gradient)
      std::copy_n(buffers.center_gradient, shape_.queries, partials.center(chunk.index, head));
    if (is_additive())
      std::copy_n(buffers.score_weight_gradient, shape_.head_dim, partials.score_weight(chunk.index, head));
  }

  std::int64_t totals_of(const QueryHead<Map>& query_head) const {
    return (query_head.batch * shape_.query_heads + query_head.index) * shape_.queries;
  }

  // do/N, (do·o) N′/N, and the part of ∂L/∂θ that needs only the rows' totals (once, by the first chunk).
  void prepare_rows(const QueryHead<Map>& query_head, const Chunk& chunk, const Rows<T>& queries,
                    const Buffers& buffers, std::array<double, parameters>& parameter_gradient) const {
    const auto [batch, index, output_head, map, visibility] = query_head;
    const std::int64_t totals_at = totals_of(query_head);
    QueryRange range{0, shape_.queries};
    if (parameters == 0 || chunk.index > 0)
      range = chunk.begin < chunk.end ? visibility.seeing_any(chunk.begin, chunk.end - chunk.begin, shape_.queries)
                                      : QueryRange{0, 0};
    if (rounds()) range.begin = range.begin / 2 * 2;
    if (range.begin < range.end)
      count_visible_keys(problem_, query_head, range.begin, range.size(), buffers.visible + range.begin);
    for (std::int64_t i = range.begin; i < range.end; i += V::lanes) {
      const std::int64_t count = std::min<std::int64_t>(V::lanes, range.end - i);
      const auto totals = row_totals<Map, T>(map, problem_.mass + totals_at + i, problem_.shift + totals_at + i,
                                             buffers.visible + i, count);
      const Rows<T> gradients =
          rows_of(problem_.output_gradient, batch, index, i, count, shape_.value_dim, buffers.gradient_rows);
      const Rows<T> outputs = rows_of(problem_.output, batch, index, i, count, shape_.value_dim, buffers.output_rows);
      for (std::int64_t r = 0; r < count; ++r) {
        const T *gradient = gradients.row(r), *output = outputs.row(r);
        const T delta = dot(gradient, output, shape_.value_dim) / totals.value[r];
        buffers.deltas[i + r] = delta * totals.derivative[r];
        if (reads_inverses()) buffers.inverses[i + r] = T(1) / totals.value[r];
        if (reads_gradients())
          copy_scaled(gradient, shape_.value_dim, V(T(1) / totals.value[r]),
                      buffers.gradients + (i + r) * value_width_);
        if constexpr (parameters > 0)
          if (chunk.index == 0 && buffers.visible[i + r] > T(0))  // 0·NaN is NaN
            for (std::size_t p = 0; p < parameters; ++p)
              parameter_gradient[p] -=
                  static_cast<double>(delta) * static_cast<double>(totals.parameter_derivative[p][r]);
      }
    }
    for (std::int64_t block = 0; block < panels_of(shape_.queries); ++block) {
      const std::int64_t first = std::max(block * panel_keys, range.begin);
      const std::int64_t count = std::min((block + 1) * panel_keys, range.end) - first;
      bool& flag = buffers.query_has_non_finite[block];
      flag = false;
      if (count <= 0) continue;
      if (score_gradients_by_pairs_)
        flag |= pack_row_pairs(problem_.query, batch, index, first, count, shape_.head_dim,
                               buffers.query_pairs + first / 2 * key_width_);
      if (weights_by_pairs_)
        flag |= pack_row_pairs(problem_.output_gradient, batch, index, first, count, shape_.value_dim,
                               buffers.gradient_pairs + first / 2 * value_width_);
      flag = hides_keys_ &&
             (flag ||
              (!score_gradients_by_pairs_ &&
               any_non_finite(Rows<T>{queries.row(first), queries.stride}, count, shape_.head_dim)) ||
              (reads_gradients() &&
               any_non_finite(Rows<T>{buffers.gradients + first * value_width_, value_width_}, count, value_width_)) ||
              (reads_inverses() && any_non_finite(Rows<T>{buffers.inverses + first, 1}, count, 1)) ||
              any_non_finite(Rows<T>{buffers.deltas + first, 1}, count, 1));
    }
  }

  // Whether queries are paired, an even one with the next.
  bool rounds() const { return score_gradients_by_pairs_ || weights_by_pairs_; }

  // One panel of up to 64 keys against every query that sees any of them.
  void differentiate_panel(const QueryHead<Map>& query_head, std::int64_t first_key, const Chunk& chunk, bool fresh,
                           const Rows<T>& queries, const Buffers& buffers,
                           std::array<double, parameters>& parameter_gradient) const {
    const std::int64_t batch = query_head.batch, key_head = shape_.key_head(query_head.index),
                       value_head = shape_.value_head(query_head.index);
    const std::int64_t count = std::min(panel_keys, chunk.end - first_key);
    const Rows<T> keys = reads_keys() ? in_whole_vectors(problem_.key, batch, key_head, first_key, count,
                                                         shape_.head_dim, buffers.key_rows)
                                      : Rows<T>{};
    // A single row sees just the keys that it is multiplied with.
    bool key_has_non_finite = hides_keys_ && (modified_ || shape_.queries > 1);
    if (score_gradients_by_pairs_)
      key_has_non_finite &=
          pack_row_pairs(problem_.key, batch, key_head, first_key, count, shape_.head_dim, buffers.key_pairs);
    else
      key_has_non_finite = key_has_non_finite && any_non_finite(keys, count, shape_.head_dim);
    if (scores_by_pairs_)
      pack_transposed(pairs_of(problem_.key, batch, key_head, first_key), count, shape_.head_dim / 2,
                      buffers.key_panel);
    else if (!is_additive())
      pack_transposed(keys, count, shape_.head_dim, buffers.key_panel);
    Rows<T> values{};
    if (values_by_pairs_) {
      pack_transposed(pairs_of(problem_.value, batch, value_head, first_key), count, shape_.value_dim / 2,
                      buffers.value_panel);
    } else if (!problem_.identity_values) {
      values = rows_of(problem_.value, batch, value_head, first_key, count, shape_.value_dim, buffers.value_rows);
      if (!values_row_by_row()) pack_transposed(values, count, shape_.value_dim, buffers.value_panel);
    }

    const QueryRange seeing = query_head.visibility.seeing_any(first_key, count, shape_.queries);
    if (fresh && (is_additive() || seeing.begin >= seeing.end))
      clear_key_gradients(first_key - chunk.begin, count, true, buffers);
    const std::int64_t begin = rounds() ? seeing.begin / 2 * 2 : seeing.begin;
    for (std::int64_t first_query = begin; first_query < seeing.end; first_query += block_queries_) {
      const std::int64_t rows = std::min(block_queries_, seeing.end - first_query);
      for (std::int64_t r = 0; r < rows; r += group_rows_)
        differentiate_group(query_head, first_query, r, std::min(group_rows_, rows - r), first_key, count,
                            first_key - chunk.begin, queries, keys, key_has_non_finite, values, buffers,
                            parameter_gradient);
      add_key_gradients(query_head, first_query, rows, first_key, count, queries, first_key - chunk.begin,
                        fresh && first_query == begin, buffers);
    }
  }

  // Rows [r, r + rows) of the block: weights and score gradients of the tile, and the queries' gradients from them.
  void differentiate_group(const QueryHead<Map>& query_head, std::int64_t first_query, std::int64_t r,
                           std::int64_t rows, std::int64_t first_key, std::int64_t keys, std::int64_t key_in_chunk,
                           const Rows<T>& query_rows, const Rows<T>& key_rows, bool key_has_non_finite,
                           const Rows<T>& values, const Buffers& buffers,
                           std::array<double, parameters>& parameter_gradient) const {
    const std::int64_t query = first_query + r;
    const Visibility& visibility = query_head.visibility;
    const KeyRange by_any = visibility.seen_by_any(query, rows), by_all = visibility.seen_by_all(query, rows);
    const std::int64_t begin = std::max<std::int64_t>(by_any.begin - first_key, 0);
    const std::int64_t end = std::min(by_any.end - first_key, keys);
    T* weights = buffers.weights + kept_row(r) * panel_keys;
    T* score_gradients = buffers.score_gradients + kept_row(r) * panel_keys;
    const std::int64_t first = std::min(begin, end) / V::lanes * V::lanes,
                       last = padded<T>(std::max<std::int64_t>(end, 0));
    const bool some_hidden = modified_ || by_all.begin - first_key > first || by_all.end - first_key < last;
    if (some_hidden || first > 0 || last < keys) {
      // Sums over rows for the keys also read lanes that no product below writes: set their weights to 0.
      std::fill_n(weights, rows * panel_keys, T(0));
      std::fill_n(score_gradients, rows * panel_keys, T(0));
    }
    if (begin >= end) return round_group(r, rows, query, weights, score_gradients, buffers);

    const std::int64_t vectors = (last - first) / V::lanes;
    const Rows<T> scored = scores_by_pairs_ ? pairs_of(problem_.query, query_head.batch, query_head.index, query)
                                            : Rows<T>{query_rows.row(query), query_rows.stride};
    const Rows<T> scored_keys =
        is_additive() ? Rows<T>{key_rows.row(first), key_rows.stride} : Rows<T>{buffers.key_panel + first, panel_keys};
    // Not row by row: a score is one chain of additions, as in forward, or the two disagree on its sign.
    score_tile<T>(problem_, scores_by_pairs_, query_head.index,
                  {rows, end - first, scored, scored_keys, weights + first, panel_keys, 0, buffers.tangents});
    if (problem_.identity_values)
      for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(buffers.gradients + (query + row) * value_width_ + first_key + first, last - first,
                    score_gradients + row * panel_keys + first);
    else if (values_row_by_row())
      dot_products<T>({buffers.gradients + query * value_width_, value_width_}, rows, values, first, end,
                      shape_.value_dim, score_gradients, panel_keys);
    else
      multiply_values(query_head, query, rows, vectors, buffers, first, score_gradients + first);

    const auto span_of = [&](std::int64_t row) {
      const KeyRange range = visibility.of(query + row);
      return RowSpan{first, last, range.begin - first_key, std::min(range.end - first_key, keys)};
    };
    if (modified_) {
      const TilePlace place{query_head.batch, query_head.output_head, query, rows, first_key, first, last, panel_keys};
      modify_tile(problem_, has_energy, place,
                  {weights, buffers.energy_bias, buffers.multipliers, buffers.softcap_derivatives});
      differentiate_rows<true>(query_head, query, rows, span_of, buffers, weights, score_gradients, parameter_gradient);
      store_modifier_gradients(query_head, place, keys, buffers, score_gradients);
      if (buffers.softcap_derivatives) differentiate_softcap(place, buffers.softcap_derivatives, score_gradients);
    } else {
      differentiate_rows<false>(query_head, query, rows, span_of, buffers, weights, score_gradients,
                                parameter_gradient);
    }

    round_group(r, rows, query, weights, score_gradients, buffers);
    if (is_additive())
      return add_additive_gradients<T>(
          rows, end - first, shape_.head_dim,
          {buffers.tangents, score_gradients + first, panel_keys,
           problem_.score_weight + query_head.index * shape_.head_dim, buffers.query_gradient + query * key_width_,
           key_width_, buffers.key_gradient + (key_in_chunk + first) * key_width_, key_width_,
           buffers.score_weight_gradient});
    if (score_gradients_by_pairs_)
      return add_query_gradient_pairs(query_head, query, rows, first_key, first, end, some_hidden && key_has_non_finite,
                                      span_of, score_gradients, buffers);
    const auto add = [&](std::int64_t row, std::int64_t count, std::int64_t from, std::int64_t to) {
      add_product<T>(count, vectors_of<T>(key_width_), to - from,
                     {score_gradients + row * panel_keys + from, panel_keys, 1, key_rows.row(from), key_rows.stride,
                      buffers.query_gradient + (query + row) * key_width_, key_width_});
    };
    if (!(some_hidden && key_has_non_finite)) return add(0, rows, begin, end);
    for (std::int64_t row = 0; row < rows; ++row) {  // 0·NaN is NaN: just the keys that the row sees
      const RowSpan span = span_of(row);
      const std::int64_t from = std::max<std::int64_t>(span.begin, 0), to = std::max(from, span.end);
      if (!modified_) {
        add(row, 1, from, to);
        continue;
      }
      for (std::int64_t x = from; x < to; ++x)
        if (!hides(problem_.modifiers, query_head.batch, query_head.output_head, query + row, first_key + x))
          add(row, 1, x, x + 1);
    }
  }

  // Rounds what later products take of a group, in pairs of two queries.
  void round_group(std::int64_t r, std::int64_t rows, std::int64_t query, const T* weights, const T* score_gradients,
                   const Buffers& buffers) const {
    if constexpr (may_have_pairs<T>) {
      if (weights_by_pairs_)
        round_to_pairs_of_rows(rows, panel_keys, weights, panel_keys, buffers.inverses + query,
                               buffers.rounded_weights + r / 2 * panel_keys, panel_keys);
      if (score_gradients_by_pairs_)
        round_to_pairs_of_rows(rows, panel_keys, score_gradients, panel_keys, nullptr,
                               buffers.rounded_score_gradients + r / 2 * panel_keys, panel_keys);
    }
  }

  // dQ += dS K by pairs of keys, columns [first, end) of the group's score gradients, rounded to bfloat16.
  template <class SpanOf>
  void add_query_gradient_pairs(const QueryHead<Map>& query_head, std::int64_t query, std::int64_t rows,
                                std::int64_t first_key, std::int64_t first, std::int64_t end, bool careful,
                                const SpanOf& span_of, const T* score_gradients, const Buffers& buffers) const {
    if constexpr (may_have_pairs<T>) {
      T* const rounded = buffers.rounded_group;
      round_to_pairs(rows, end - first, score_gradients + first, panel_keys, rounded, panel_keys);
      const std::int64_t pairs = (end - first + 1) / 2;
      const T* const keys = buffers.key_pairs + first / 2 * key_width_;
      const auto add = [&](std::int64_t row, std::int64_t count, const T* of_keys) {
        score_gradients_by_pairs_->multiply(count, vectors_of<T>(key_width_), pairs,
                                            {rounded + row * panel_keys, panel_keys, of_keys, key_width_,
                                             buffers.query_gradient + (query + row) * key_width_, key_width_, true});
      };
      if (!careful) return add(0, rows, keys);
      for (std::int64_t row = 0; row < rows; ++row) {  // 0·NaN is NaN: just the keys that the row sees
        const RowSpan span = span_of(row);
        const auto sees = [&](std::int64_t x) {
          return span.begin <= x && x < span.end &&
                 !(modified_ &&
                   hides(problem_.modifiers, query_head.batch, query_head.output_head, query + row, first_key + x));
        };
        for (std::int64_t p = 0; p < pairs; ++p)
          select_of_pairs(keys + p * key_width_, key_width_, sees(first + 2 * p), sees(first + 2 * p + 1),
                          buffers.selected + p * key_width_);
        add(row, 1, buffers.selected);
      }
    }
  }

  // Whether queries are so few that transposing the values would cost more than it saves.
  bool values_row_by_row() const { return !values_by_pairs_ && shape_.queries <= 2; }

  // do·v/N of a tile, from column `first` of the panel; by pairs do·v, which differentiate_rows divides.
  void multiply_values(const QueryHead<Map>& query_head, std::int64_t query, std::int64_t rows, std::int64_t vectors,
                       const Buffers& buffers, std::int64_t first, T* products) const {
    const T* panel = buffers.value_panel + first;
    if (!values_by_pairs_)
      return product<T>(
          rows, vectors, shape_.value_dim,
          {buffers.gradients + query * value_width_, value_width_, 1, panel, panel_keys, products, panel_keys});
    const Rows<T> gradients = pairs_of(problem_.output_gradient, query_head.batch, query_head.index, query);
    product_of_pairs<T>(*values_by_pairs_, rows, vectors, shape_.value_dim / 2,
                        {gradients.data, gradients.stride, 1, panel, panel_keys, products, panel_keys});
  }

  // Turns the scores of a group into weights, and what multiply_values left into the gradients of the scores.
  template <bool modified, class SpanOf>
  void differentiate_rows(const QueryHead<Map>& query_head, std::int64_t query, std::int64_t rows,
                          const SpanOf& span_of, const Buffers& buffers, T* weights, T* score_gradients,
                          std::array<double, parameters>& parameter_gradient) const {
    const Differentiated<Map> map = query_head.map;  // a copy that stores to the tile cannot alias
    const V scale(problem_.scale);
    const T* shift = problem_.shift + totals_of(query_head);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t i = query + row;
      const Row<V> of_row{.visible = V(buffers.visible[i]), .shift = V(shift[i])};
      T* a = weights + row * panel_keys;
      T* ds = score_gradients + row * panel_keys;
      const V delta(buffers.deltas[i]), inverse(values_by_pairs_ ? buffers.inverses[i] : T(1));
      std::array<V, parameters> parameter_sums;
      parameter_sums.fill(V(T(0)));
      const auto differentiate = [&](std::int64_t x, const auto& visible) {
        V score = V::load(a + x), gradient = V::load(ds + x) * inverse;  // do·v/N
        Row<V> of_key = of_row;
        if constexpr (modified)
          of_key.shift = of_row.shift - V::load(buffers.energy_bias + row * panel_keys + x);
        else
          score = scale * score;
        const auto [terms, derivatives, by_parameter] = map.terms_with_derivatives(score, of_key);
        V weight = terms.weight;
        if constexpr (modified) {
          const V multiplier = V::load(buffers.multipliers + row * panel_keys + x);
          const V contribution = weight * multiplier * gradient;
          visible(contribution).store(buffers.contributions + row * panel_keys + x);
          // A map without an energy has no exponents.
          visible(has_energy ? contribution - delta * terms.mass : V(T(0)))
              .store(buffers.exponent_gradients + row * panel_keys + x);
          weight = weight * multiplier;
          gradient = gradient * multiplier;
        }
        visible(weight).store(a + x);
        visible(derivatives.weight * gradient - delta * derivatives.mass).store(ds + x);
        for (std::size_t p = 0; p < parameters; ++p)
          parameter_sums[p] =
              parameter_sums[p] + visible(by_parameter[p].weight * gradient - delta * by_parameter[p].mass);
      };
      for_each_vector<modified>(span_of(row), a, differentiate);
      for (std::size_t p = 0; p < parameters; ++p)
        parameter_gradient[p] += static_cast<double>(parameter_sums[p].sum());
    }
  }

  // The gradients of a modified group's biases and centers.
  void store_modifier_gradients(const QueryHead<Map>& query_head, const TilePlace& place, std::int64_t keys,
                                const Buffers& buffers, const T* score_gradients) const {
    const std::int64_t end = std::min(place.last, keys);
    for (std::int64_t row = 0; row < place.rows; ++row) {
      const std::int64_t i = totals_of(query_head) + place.query + row;
      const auto store = [&](const T* from, T* all) {
        if (!all) return;
        from += row * panel_keys;
        std::copy(from + place.first, from + end, all + i * shape_.keys + place.first_key + place.first);
      };
      store(score_gradients, problem_.bias_gradient);
      store(buffers.exponent_gradients, problem_.energy_bias_gradient);
      if (problem_.centers_gradient)
        buffers.center_gradient[place.query + row] += center_derivative(
            problem_.modifiers,
            problem_.modifiers
                .centers[(place.batch * (shape_.query_heads / shape_.sub_heads) + place.output_head) * shape_.queries +
                         place.query + row],
            buffers.contributions + row * panel_keys, place.first_key, place.first, end);
    }
  }

  void clear_key_gradients(std::int64_t key_in_chunk, std::int64_t keys, bool of_keys, const Buffers& buffers) const {
    if (!problem_.identity_values)
      std::fill_n(buffers.value_gradient + key_in_chunk * value_width_, keys * value_width_, T(0));
    if (of_keys) std::fill_n(buffers.key_gradient + key_in_chunk * key_width_, keys * key_width_, T(0));
  }

  // Sums the tile over its rows: dV += Aᵀ (do/N), and dK += dSᵀ Q where the score is a product.
  void add_key_gradients(const QueryHead<Map>& query_head, std::int64_t first_query, std::int64_t rows,
                         std::int64_t first_key, std::int64_t keys, const Rows<T>& queries, std::int64_t key_in_chunk,
                         bool fresh, const Buffers& buffers) const {
    bool writes = fresh;
    const Visibility& visibility = query_head.visibility;
    const auto sees = [&](std::int64_t row, std::int64_t key) {
      const KeyRange range = visibility.of(first_query + row);
      return row < rows && range.begin <= first_key + key && first_key + key < range.end &&
             !(modified_ &&
               hides(problem_.modifiers, query_head.batch, query_head.output_head, first_query + row, first_key + key));
    };
    const auto gather = [&](std::int64_t key, std::int64_t count, std::int64_t from, std::int64_t to, bool select) {
      if (from >= to) {
        if (writes) clear_key_gradients(key_in_chunk + key, count, !is_additive(), buffers);
        return;
      }
      const auto add = writes ? product<T> : add_product<T>;
      const std::int64_t query = first_query + from;
      const auto seen = [&](std::int64_t row) { return sees(row, key); };
      T *const of_values = buffers.value_gradient + (key_in_chunk + key) * value_width_, *const of_keys =
                                                                                             buffers.key_gradient +
                                                                                             (key_in_chunk + key) *
                                                                                                 key_width_;
      if (weights_by_pairs_)
        add_row_pairs(*weights_by_pairs_, key, count, from, to, select, seen, buffers.rounded_weights,
                      {buffers.gradient_pairs + first_query / 2 * value_width_, value_width_}, of_values, !writes,
                      buffers);
      else if (!problem_.identity_values)
        add(count, vectors_of<T>(value_width_), to - from,
            {buffers.weights + from * panel_keys + key, 1, panel_keys, buffers.gradients + query * value_width_,
             value_width_, of_values, value_width_});
      if (score_gradients_by_pairs_)
        add_row_pairs(*score_gradients_by_pairs_, key, count, from, to, select, seen, buffers.rounded_score_gradients,
                      {buffers.query_pairs + first_query / 2 * key_width_, key_width_}, of_keys, !writes, buffers);
      else if (!is_additive())
        add(count, vectors_of<T>(key_width_), to - from,
            {buffers.score_gradients + from * panel_keys + key, 1, panel_keys, queries.row(query), queries.stride,
             of_keys, key_width_});
    };
    const bool* flags = buffers.query_has_non_finite;
    const bool careful = std::any_of(flags + first_query / panel_keys, flags + panels_of(first_query + rows),
                                     [](bool flag) { return flag; });
    if (visibility.seen_throughout(first_key, keys, {first_query, first_query + rows}, shape_.queries) &&
        !(careful && modified_))
      return gather(0, keys, 0, rows, false);
    if (careful && fresh) {  // row by row
      clear_key_gradients(key_in_chunk, keys, !is_additive(), buffers);
      writes = false;
    }
    // 0·NaN is NaN: each key takes just the queries that see it.
    const std::int64_t group = careful ? 1 : group_rows_;
    for (std::int64_t key = 0; key < keys; key += group) {
      const std::int64_t count = std::min(group, keys - key);
      const QueryRange seeing = visibility.seeing_any(first_key + key, count, shape_.queries);
      const std::int64_t from = std::max<std::int64_t>(seeing.begin - first_query, 0),
                         to = std::min(seeing.end - first_query, rows);
      if (!careful || rounds() || !(modified_ || visibility.ranges)) {
        gather(key, count, from, to, careful);
        continue;
      }
      for (std::int64_t row = from; row < to; ++row)
        if (sees(row, key)) gather(key, 1, row, row + 1, false);
    }
  }

  // Adds, for keys [key, key + count) of a block, the sums over queries [from, to) of what was rounded in pairs of two
  // queries, times pairs of rows. `select`: of one key, whose rows that do not see it count as 0.
  template <class Seen>
  void add_row_pairs(const PairProduct& by_pairs, std::int64_t key, std::int64_t count, std::int64_t from,
                     std::int64_t to, bool select, const Seen& seen, const T* rounded, const Rows<T>& row_pairs,
                     T* sums, bool add, const Buffers& buffers) const {
    if constexpr (may_have_pairs<T>) {
      const std::int64_t width = row_pairs.stride, first = from / 2, pairs = (to + 1) / 2 - first;
      const T* rows = row_pairs.row(first);
      if (select) {
        for (std::int64_t p = 0; p < pairs; ++p)
          select_of_pairs(rows + p * width, width, seen(2 * (first + p)), seen(2 * (first + p) + 1),
                          buffers.selected + p * width);
        rows = buffers.selected;
      }
      PairOperands operands{rounded + first * panel_keys + key, 1, rows, width, sums, width, add, panel_keys};
      if (!by_pairs.reads_columns) {
        pack_transposed(Rows<T>{rounded + first * panel_keys, panel_keys}, pairs, panel_keys, buffers.transposed);
        operands.a = buffers.transposed + key * panel_keys;
        operands.a_row = panel_keys;
        operands.a_pair = 1;
      }
      by_pairs.multiply(count, vectors_of<T>(width), pairs, operands);
    }
  }

  const PairwiseBackward<T>& problem_;
  const PairwiseShape& shape_;
  bool modified_, hides_keys_;
  // Multiply bfloat16 pairs of queries and keys, and of do and values; null where elements are not such.
  const PairProduct *scores_by_pairs_, *values_by_pairs_;
  // Multiply what is rounded to bfloat16 by pairs of two rows: score gradients by those of keys and of queries, weights
  // by those of do; null where these are not bfloat16.
  const PairProduct *score_gradients_by_pairs_, *weights_by_pairs_;
  std::int64_t group_rows_;     // rows differentiated together
  std::int64_t block_queries_;  // a multiple of it
  bool keeps_block_;            // weights and score gradients of a block, not only of a group
  std::int64_t key_width_, value_width_, chunks_, chunk_keys_;
};

}  // namespace cogwheel::HWY_NAMESPACE
