// Pairwise attention forward: one sweep over the keys with a running maximum, O(1) memory per query.
#pragma once
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_rows.h"
#include "cogwheel/attention/kernels/pairwise/cpu/row_statistics.h"

namespace cogwheel::HWY_NAMESPACE {

template <class Map, class T>
class ForwardEngine {
 protected:  // the decode engine splits the same arithmetic over the keys
  using V = Vector<T>;
  static constexpr bool has_energy = EnergyMap<Map, V>;
  // 32 register tiles of rows share 256 keys and values from the second-level cache.
  static constexpr std::int64_t block_queries = 192, block_keys = 256;

  // Keys and values of one head, ready for the products.
  struct Head {
    const T* key_panels;               // [panels], as score_tile takes them
    Rows<T> value;                     // [keys][value_dim], in whole vectors; or pairs of two keys
    const bool* value_has_non_finite;  // [panels]
  };

  struct HeadMemory {
    T *panels, *values, *key_rows;
    bool* flags;
  };

  struct Buffers {
    T *scores, *sums, *mass, *shift, *alpha, *visible;
    T *energy_bias, *multipliers;  // of a modified tile, beside its scores
    T* queries;                    // of a block, widened
    T* statistics;                 // of each row, where they are wanted
    T* entropies;                  // Σ|f| log|f| of a tile's rows, in vectors of partial sums
    T* selected_values;            // pairs of keys that one row sees
  };

 public:
  explicit ForwardEngine(const PairwiseForward<T>& problem)
      : problem_(problem),
        shape_(problem.shape),
        modified_(problem.modifiers.any()),
        hides_keys_(modified_ || problem.visibility.differs_by_query()),
        by_pairs_(pair_product_of_keys(problem)),
        weights_by_pairs_(problem.identity_values ? nullptr : pair_product_with_rows(problem, problem.value)),
        group_rows_(group_rows_of(problem, by_pairs_)),
        entropies_known_(weights_are_exponentials<Map> && problem.statistics.wanted() && !modified_),
        panel_width_(panel_width_of(problem, by_pairs_)),
        panels_(panels_of(shape_.keys)),
        value_width_(padded<T>(shape_.value_dim)) {}

  void run(const Executor& executor) const {
    const std::int64_t blocks = (shape_.queries + block_queries - 1) / block_queries;
    const std::int64_t value_heads = shape_.batch * shape_.value_heads;
    // With enough heads for the workers, each packs keys for itself into memory that stays in its cache; with few
    // heads, keys are packed once and shared, so that blocks of queries can be spread over the workers.
    if (blocks == 1 || value_heads >= 4 * executor.workers())
      run_by_head(executor, blocks);
    else
      run_by_block(executor, blocks);
  }

 protected:
  void run_by_head(const Executor& executor, std::int64_t blocks) const {
    executor.run(shape_.batch * shape_.value_heads, [&](std::int64_t index, int) {
      const std::int64_t batch = index / shape_.value_heads, value_head = index % shape_.value_heads;
      WorkspaceLayout measured;
      take_head(measured), take_buffers(measured);
      WorkspaceLayout layout(thread_workspace(Scratch::task, measured.bytes()));
      const HeadMemory memory = take_head(layout);
      const Buffers buffers = take_buffers(layout);
      for (std::int64_t c = 0; c < shape_.sub_heads; ++c) {
        const Head head = pack(batch, value_head, c, c == 0, memory);
        for (std::int64_t h = c; h < shape_.query_heads_per_value_head(); h += shape_.sub_heads)
          for (std::int64_t block = 0; block < blocks; ++block)
            attend(batch, value_head * shape_.query_heads_per_value_head() + h, block, head, buffers);
      }
    });
  }

  void run_by_block(const Executor& executor, std::int64_t blocks) const {
    WorkspaceLayout one;
    take_head(one);
    const std::int64_t key_heads = shape_.batch * shape_.key_heads();
    auto* base =
        static_cast<std::byte*>(thread_workspace(Scratch::call, one.bytes() * static_cast<std::size_t>(key_heads)));
    const auto memory_of = [&](std::int64_t key_head) {
      WorkspaceLayout layout(base + key_head * static_cast<std::int64_t>(one.bytes()));
      return take_head(layout);
    };
    const auto head_of = [&](std::int64_t batch, std::int64_t key_head) {
      const HeadMemory memory = memory_of(batch * shape_.key_heads() + key_head);
      return Head{panels_of_head(batch, key_head, memory),
                  whole_values(batch, key_head / shape_.sub_heads, memory.values), memory.flags};
    };
    executor.run(key_heads, [&](std::int64_t index, int) {
      const std::int64_t batch = index / shape_.key_heads(), key_head = index % shape_.key_heads();
      const HeadMemory memory = memory_of(index);
      pack(batch, key_head / shape_.sub_heads, key_head % shape_.sub_heads, true, memory);
    });
    executor.run(shape_.batch * shape_.query_heads * blocks, [&](std::int64_t index, int) {
      // Causal blocks grow with the query: the longest first, so that no worker is left alone with one at the end.
      const std::int64_t block = blocks - 1 - index / (shape_.batch * shape_.query_heads);
      const std::int64_t head = index % (shape_.batch * shape_.query_heads);
      const std::int64_t batch = head / shape_.query_heads, query_head = head % shape_.query_heads;
      WorkspaceLayout measured;
      take_buffers(measured);
      WorkspaceLayout layout(thread_workspace(Scratch::task, measured.bytes()));
      attend(batch, query_head, block, head_of(batch, shape_.key_head(query_head)), take_buffers(layout));
    });
  }

  HeadMemory take_head(WorkspaceLayout& layout) const {
    HeadMemory memory;
    const bool in_place = has_panels_in_place(problem_, by_pairs_);
    memory.panels = layout.take<T>(in_place ? 0 : static_cast<std::size_t>(panels_ * panel_keys * panel_width_));
    const bool copied = !problem_.identity_values && !lies_in_whole_vectors(problem_.value, shape_.value_dim);
    const std::int64_t value_rows = weights_by_pairs_ ? panels_ * panel_keys / 2 : shape_.keys;
    memory.values = layout.take<T>(copied ? static_cast<std::size_t>(value_rows * value_width_) : 0);
    memory.key_rows = layout.take<T>(key_rows_widened() ? static_cast<std::size_t>(panel_keys * shape_.head_dim) : 0);
    memory.flags = layout.take<bool>(static_cast<std::size_t>(panels_));
    return memory;
  }

  Buffers take_buffers(WorkspaceLayout& layout) const {
    const auto group = static_cast<std::size_t>(group_rows_);
    const auto rows = static_cast<std::size_t>(std::min(block_queries, shape_.queries) + V::lanes);
    Buffers buffers;
    buffers.scores = layout.take<T>(group * block_keys);
    buffers.sums = layout.take<T>(rows * static_cast<std::size_t>(value_width_));
    buffers.mass = layout.take<T>(rows * V::lanes);
    buffers.shift = layout.take<T>(rows);
    buffers.alpha = layout.take<T>(group + V::lanes);
    buffers.visible = layout.take<T>(rows);
    buffers.energy_bias = layout.take<T>(modified_ ? group * block_keys : 0);
    buffers.multipliers = layout.take<T>(modified_ ? group * block_keys : 0);
    buffers.selected_values =
        layout.take<T>(weights_by_pairs_ ? static_cast<std::size_t>(block_keys / 2 * value_width_) : 0);
    buffers.queries = layout.take<T>(
        problem_.query.is_compute_dtype() || by_pairs_ ? 0 : rows * static_cast<std::size_t>(shape_.head_dim));
    buffers.statistics =
        layout.take<T>(problem_.statistics.wanted() ? rows * static_cast<std::size_t>(statistics_scratch<T>()) : 0);
    buffers.entropies = layout.take<T>(entropies_known_ ? group * V::lanes : 0);
    return buffers;
  }

  // Whether keys are widened before they are packed.
  bool key_rows_widened() const { return !problem_.key_panels.any() && !problem_.key.is_compute_dtype() && !by_pairs_; }

  const T* panels_of_head(std::int64_t batch, std::int64_t key_head, const HeadMemory& memory) const {
    if (!has_panels_in_place(problem_, by_pairs_)) return memory.panels;
    return whole_panel<T>(problem_, by_pairs_, batch, key_head, 0, nullptr);
  }

  // Leaves up to 64 keys from `first`, a multiple of 64, in `panel`.
  void pack_panel(std::int64_t batch, std::int64_t key_head, std::int64_t first, std::int64_t count, T* key_rows,
                  T* panel) const {
    const Rows<T> keys = by_pairs_ ? pairs_of(problem_.key, batch, key_head, first)
                                   : rows_of(problem_.key, batch, key_head, first, count, shape_.head_dim, key_rows);
    pack_keys(problem_, keys, count, panel_width_, panel);
  }

  Rows<T> whole_values(std::int64_t batch, std::int64_t value_head, const T* copy) const {
    if (problem_.identity_values) return {nullptr, 0};
    if (lies_in_whole_vectors(problem_.value, shape_.value_dim))
      return {problem_.value.row(batch, value_head, 0), problem_.value.row_stride()};
    return {copy, value_width_};
  }

  Head pack(std::int64_t batch, std::int64_t value_head, std::int64_t sub_head, bool first_of_values,
            const HeadMemory& memory) const {
    const bool with_values = first_of_values && !problem_.identity_values;
    const std::int64_t key_head = value_head * shape_.sub_heads + sub_head;
    if (with_values && !weights_by_pairs_)
      in_whole_vectors(problem_.value, batch, value_head, 0, shape_.keys, shape_.value_dim, memory.values);
    const Rows<T> values = whole_values(batch, value_head, memory.values);
    for (std::int64_t p = 0; p < panels_; ++p) {
      const std::int64_t first = p * panel_keys, count = std::min(panel_keys, shape_.keys - first);
      T* const panel = memory.panels + first * panel_width_;
      if (!problem_.key_panels.any())
        pack_panel(batch, key_head, first, count, memory.key_rows, panel);
      else if (!has_panels_in_place(problem_, by_pairs_))
        whole_panel(problem_, by_pairs_, batch, key_head, p, panel);
      if (with_values && weights_by_pairs_)
        memory.flags[p] = pack_row_pairs(problem_.value, batch, value_head, first, count, shape_.value_dim,
                                         memory.values + first / 2 * value_width_);
      else if (with_values && hides_keys_)
        memory.flags[p] = any_non_finite(Rows<T>{values.row(first), values.stride}, count, shape_.value_dim);
    }
    return {panels_of_head(batch, key_head, memory), values, memory.flags};
  }

  // One block of queries of one head against every key that it sees.
  void attend(std::int64_t batch, std::int64_t index, std::int64_t block, const Head& head,
              const Buffers& buffers) const {
    const PairProductUse of_scores(by_pairs_), of_weights(weights_by_pairs_);
    const QueryHead<Map> query_head = query_head_of<Map>(problem_, batch, index);
    const std::int64_t first_query = block * block_queries;
    const std::int64_t rows = std::min(block_queries, shape_.queries - first_query);
    std::fill_n(buffers.mass, rows * V::lanes, T(0));
    V(initial_shift(query_head.map)).store(buffers.alpha);
    // Whole vectors of rows: what lies beyond must not slow down arithmetic, as subnormal numbers would.
    std::fill_n(buffers.shift, rows + V::lanes, buffers.alpha[0]);
    count_visible_keys(problem_, query_head, first_query, rows, buffers.visible);
    const Rows<T> queries =
        by_pairs_ ? pairs_of(problem_.query, batch, index, first_query)
                  : rows_of(problem_.query, batch, index, first_query, rows, shape_.head_dim, buffers.queries);

    const KeyRange seen = query_head.visibility.seen_by_any(first_query, rows);
    const std::int64_t begin = seen.begin / panel_keys * panel_keys;
    // Blocks end at multiples of their size, whatever the queries of a block are: the running maximum of a row rises at
    // the same keys, and so it has the same bits, beside any other rows.
    for (std::int64_t first_key = begin, end = begin; first_key < seen.end; first_key = end) {
      end = std::min(seen.end, (first_key / block_keys + 1) * block_keys);
      for (std::int64_t r = 0; r < rows; r += group_rows_)
        attend_group(query_head, first_query, r, std::min(group_rows_, rows - r), {first_key, end}, first_key == begin,
                     queries, head, buffers);
    }
    if (begin >= seen.end) clear(0, rows, buffers);
    finish(query_head, first_query, rows, buffers);
  }

  // Rows that have seen no key yet.
  void clear(std::int64_t r, std::int64_t rows, const Buffers& buffers) const {
    std::fill_n(buffers.sums + r * value_width_, rows * value_width_, T(0));
    if (problem_.statistics.wanted()) clear_statistics(rows, buffers.statistics + r * statistics_scratch<T>());
  }

  static V initial_shift(const Differentiated<Map>& map) {
    if constexpr (SinkMap<Map, V>)
      return map.template initial_energy<V>();
    else
      return V(has_energy ? -std::numeric_limits<T>::infinity() : T(0));
  }

  // Rows [r, r + rows) of the block against a block of keys. `fresh`: the first, before which there are no sums.
  void attend_group(const QueryHead<Map>& query_head, std::int64_t first_query, std::int64_t r, std::int64_t rows,
                    KeyRange keys, bool fresh, const Rows<T>& queries, const Head& head, const Buffers& buffers) const {
    const std::int64_t first_key = keys.begin;
    const Visibility& visibility = query_head.visibility;
    const KeyRange by_any = visibility.seen_by_any(first_query + r, rows);
    const KeyRange by_all = visibility.seen_by_all(first_query + r, rows);
    const std::int64_t begin = std::max<std::int64_t>(by_any.begin - first_key, 0);
    const std::int64_t end = std::min(by_any.end, keys.end) - first_key;
    T* const sums = buffers.sums + r * value_width_;
    if (begin >= end) {
      if (fresh) clear(r, rows, buffers);
      return;
    }
    const std::int64_t unit = weights_by_pairs_ ? 2 * PairProduct::chain_pairs : V::lanes;
    const std::int64_t first = begin / unit * unit, last = padded<T>(end);
    const bool some_hidden = by_all.begin - first_key > first || by_all.end - first_key < last;

    for (std::int64_t x = first; x < last;) {
      // Products take many panels at once.
      const bool at_once = !problem_.score_weight && x % panel_keys == 0;
      const std::int64_t panel_end = at_once ? last : std::min(x / panel_keys * panel_keys + panel_keys, last);
      const T* panel = head.key_panels + (first_key + x) / panel_keys * panel_keys * panel_width_;
      score_tile<T>(problem_, by_pairs_, query_head.index,
                    {rows,
                     std::min(panel_end, end) - x,
                     {queries.row(r), queries.stride},
                     keys_from(problem_, panel, x % panel_keys, panel_width_),
                     buffers.scores + x,
                     block_keys,
                     panel_keys * panel_width_});
      x = panel_end;
    }

    const SpanOfRow span_of{visibility, first_query + r, first_key, first, last};
    T* shift = buffers.shift + r;
    if (modified_) {
      modify_tile(problem_, has_energy,
                  {query_head.batch, query_head.output_head, first_query + r, rows, first_key, first, last, block_keys},
                  {buffers.scores, buffers.energy_bias, buffers.multipliers});
      weigh_group<true>(query_head.map, rows, span_of, buffers, r, shift);
    } else if (entropies_known_) {
      weigh_group<false, weights_are_exponentials<Map>>(query_head.map, rows, span_of, buffers, r, shift);
    } else {
      weigh_group<false>(query_head.map, rows, span_of, buffers, r, shift);
    }
    if (problem_.statistics.wanted())
      add_weights<T>({buffers.scores, block_keys, rows, first_key, first, last, fresh,
                      entropies_known_ ? buffers.entropies : nullptr},
                     has_energy ? buffers.alpha : nullptr, problem_.statistics.argmax_wanted,
                     buffers.statistics + r * statistics_scratch<T>());
    if (problem_.identity_values)
      place_weights(rows, first_key, first, std::min(end, last), fresh, buffers, sums);
    else
      add_values(query_head, first_query + r, rows, first_key, first, std::min(end, last), some_hidden || modified_,
                 fresh, span_of, head, buffers, sums);
  }

  // Turns the scores of a group into weights, and adds their masses g to the rows' totals G. `with_entropies`: also
  // sums |f| log|f| of each row.
  template <bool modified, bool with_entropies = false, class SpanOf>
  void weigh_group(const Differentiated<Map>& given, std::int64_t rows, const SpanOf& span_of, const Buffers& buffers,
                   std::int64_t r, T* shift) const {
    const Differentiated<Map> map = given;  // a copy that stores to the scores cannot alias
    const V scale(problem_.scale);
    if constexpr (has_energy) raise_shift<modified>(map, rows, span_of, buffers, shift);
    for (std::int64_t row = 0; row < rows; ++row) {
      const Row<V> of_row{.visible = V(buffers.visible[r + row]), .shift = V(shift[row])};
      T* scores = buffers.scores + row * block_keys;
      V mass = V::load(buffers.mass + (r + row) * V::lanes);
      if constexpr (has_energy) mass = mass * V(buffers.alpha[row]);
      const RowSpan span = span_of(row);
      V entropy(T(0));
      for_each_vector<modified>(span, scores, [&](std::int64_t x, const auto& visible) {
        Terms<V> terms;
        if constexpr (modified) {
          // Adding to the exponent is the same as lowering the shift.
          const Row<V> of_key{of_row.visible, of_row.shift - V::load(buffers.energy_bias + row * block_keys + x)};
          terms = map.terms(V::load(scores + x), of_key);
          terms.weight = terms.weight * V::load(buffers.multipliers + row * block_keys + x);
        } else {
          const V score = scale * V::load(scores + x);
          terms = map.terms(score, of_row);
          if constexpr (with_entropies) {
            // A finite logarithm of a weight of 0, whose product is 0.
            const V log = V::max(V(std::numeric_limits<T>::lowest()), map.energy(score) - of_row.shift);
            entropy = entropy + visible(V::abs(terms.weight) * log);
          }
        }
        mass = mass + visible(terms.mass);
        visible(terms.weight).store(scores + x);
      });
      mass.store(buffers.mass + (r + row) * V::lanes);
      if constexpr (with_entropies) entropy.store(buffers.entropies + row * V::lanes);
    }
  }

  // Raises the running maximum of the exponents, and writes to alpha the factor by which the old sums shrink.
  template <bool modified, class SpanOf>
  void raise_shift(const Differentiated<Map>& map, std::int64_t rows, const SpanOf& span_of, const Buffers& buffers,
                   T* shift) const {
    const V scale(problem_.scale);
    T highest[PairProduct::max_group_rows + V::lanes] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* scores = buffers.scores + row * block_keys;
      V energy(shift[row]);
      const RowSpan span = span_of(row);
      for_each_vector<modified>(span, scores, [&](std::int64_t x, const auto& visible) {
        V of_key;
        if constexpr (modified)
          of_key = map.energy(V::load(scores + x)) + V::load(buffers.energy_bias + row * block_keys + x);
        else
          of_key = map.energy(scale * V::load(scores + x));
        energy = V::max(energy, visible.or_else(of_key, V(shift[row])));
      });
      highest[row] = energy.maximum();
    }
    for (std::int64_t row = 0; row < rows; row += V::lanes) {
      const V before = V::load(shift + row), now = V::load(highest + row);
      // Equal maxima first: −∞ − −∞ of a row that has seen no key yet would be NaN.
      V::select(before == now, V(T(1)), V::exp(before - now)).store(buffers.alpha + row);
    }
    std::copy_n(highest, rows, shift);
  }

  // What add_values gives for the identity, whose products with weights are the weights. A running maximum that stays
  // leaves what was placed before as it is; it rises in few blocks.
  void place_weights(std::int64_t rows, std::int64_t first_key, std::int64_t first, std::int64_t end, bool fresh,
                     const Buffers& buffers, T* sums) const {
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const to = sums + row * value_width_;
      if (fresh)
        std::fill_n(to, value_width_, T(0));
      else if (has_energy && buffers.alpha[row] != T(1))
        copy_scaled(to, first_key + first, V(buffers.alpha[row]), to);
      std::copy_n(buffers.scores + row * block_keys + first, end - first, to + first_key + first);
    }
  }

  // sums ← α·sums + weights · values, columns [first, end) of the group's weights.
  template <class SpanOf>
  void add_values(const QueryHead<Map>& query_head, std::int64_t query, std::int64_t rows, std::int64_t first_key,
                  std::int64_t first, std::int64_t end, bool some_hidden, bool fresh, const SpanOf& span_of,
                  const Head& head, const Buffers& buffers, T* sums) const {
    const T *weights = buffers.scores, *alpha = buffers.alpha;
    const bool* flags = head.value_has_non_finite;
    const bool careful = hides_keys_ && some_hidden &&
                         std::any_of(flags + (first_key + first) / panel_keys, flags + panels_of(first_key + end),
                                     [](bool flag) { return flag; });
    if (fresh && careful) std::fill_n(sums, rows * value_width_, T(0));
    const bool writes = fresh && !careful;
    if (weights_by_pairs_)
      return add_value_pairs(query_head, query, rows, first_key, first, end, careful, writes, span_of, head, buffers,
                             sums);
    const auto add = [&](std::int64_t row, std::int64_t count, std::int64_t from, std::int64_t to) {
      const ProductOperands<T> operands{
          weights + row * block_keys + from, block_keys,  1, head.value.row(first_key + from), head.value.stride,
          sums + row * value_width_,         value_width_};
      if (writes)
        product<T>(count, vectors_of<T>(value_width_), to - from, operands);
      else if constexpr (has_energy)
        rescale_add_product<T>(count, vectors_of<T>(value_width_), to - from, operands, alpha + row);
      else
        add_product<T>(count, vectors_of<T>(value_width_), to - from, operands);
    };
    if (!careful) return add(0, rows, first, end);
    // 0·NaN is NaN: each row takes just the values that it sees. The first addition of every row rescales its sums.
    for (std::int64_t row = 0; row < rows; ++row) {
      const RowSpan span = span_of(row);
      const std::int64_t from = std::max(span.begin, first), to = std::max(from, std::min(span.end, end));
      if (!modified_) {
        add(row, 1, from, to);
        continue;
      }
      add(row, 1, from, from);
      for (std::int64_t x = from; x < to; ++x)
        if (!hides(problem_.modifiers, query_head.batch, query_head.output_head, query + row, first_key + x))
          add_product<T>(1, vectors_of<T>(value_width_), 1,
                         {weights + row * block_keys + x, block_keys, 1, head.value.row(first_key + x),
                          head.value.stride, sums + row * value_width_, value_width_});
    }
  }

  // The same by pairs of keys, with weights rounded to bfloat16.
  template <class SpanOf>
  void add_value_pairs(const QueryHead<Map>& query_head, std::int64_t query, std::int64_t rows, std::int64_t first_key,
                       std::int64_t first, std::int64_t end, bool careful, bool writes, const SpanOf& span_of,
                       const Head& head, const Buffers& buffers, T* sums) const {
    if constexpr (may_have_pairs<T>) {
      if (has_energy && !writes)
        for (std::int64_t row = 0; row < rows; ++row)
          copy_scaled(sums + row * value_width_, value_width_, V(buffers.alpha[row]), sums + row * value_width_);
      T* weights = buffers.scores + first;  // pairs in place of the weights
      round_to_pairs(rows, end - first, weights, block_keys, weights, block_keys);
      const std::int64_t pairs = (end - first + 1) / 2;
      const auto add = [&](std::int64_t row, std::int64_t count, const T* values) {
        weights_by_pairs_->multiply(count, vectors_of<T>(value_width_), pairs,
                                    {weights + row * block_keys, block_keys, values, value_width_,
                                     sums + row * value_width_, value_width_, !writes});
      };
      const T* values = head.value.row((first_key + first) / 2);
      if (!careful) return add(0, rows, values);
      // 0·NaN is NaN: values that a row does not see become 0. All pairs are still added, so that the order stays.
      for (std::int64_t row = 0; row < rows; ++row) {
        const RowSpan span = span_of(row);
        const auto sees = [&](std::int64_t x) {
          return span.begin <= x && x < span.end &&
                 !(modified_ &&
                   hides(problem_.modifiers, query_head.batch, query_head.output_head, query + row, first_key + x));
        };
        for (std::int64_t p = 0; p < pairs; ++p)
          select_of_pairs(values + p * value_width_, value_width_, sees(first + 2 * p), sees(first + 2 * p + 1),
                          buffers.selected_values + p * value_width_);
        add(row, 1, buffers.selected_values);
      }
    }
  }

  void finish(const QueryHead<Map>& query_head, std::int64_t first_query, std::int64_t rows,
              const Buffers& buffers) const {
    const std::int64_t totals_at =
        (query_head.batch * shape_.query_heads + query_head.index) * shape_.queries + first_query;
    for (std::int64_t r = 0; r < rows; ++r) {
      problem_.mass[totals_at + r] = V::load(buffers.mass + r * V::lanes).sum();
      problem_.shift[totals_at + r] = buffers.shift[r];
    }
    for (std::int64_t r = 0; r < rows; r += V::lanes) {
      const std::int64_t count = std::min<std::int64_t>(V::lanes, rows - r);
      const auto totals = row_totals<Map, T>(query_head.map, problem_.mass + totals_at + r,
                                             problem_.shift + totals_at + r, buffers.visible + r, count);
      if (problem_.statistics.wanted())
        store_statistics<T>(count, buffers.statistics + r * statistics_scratch<T>(),
                            {totals.value, buffers.shift + r, buffers.visible + r}, problem_.statistics, totals_at + r);
      for (std::int64_t i = 0; i < count; ++i)
        store_row(buffers.sums + (r + i) * value_width_, shape_.value_dim, V(T(1) / totals.value[i]), problem_.output,
                  query_head.batch, query_head.index, first_query + r + i);
    }
  }

  const PairwiseForward<T>& problem_;
  const PairwiseShape& shape_;
  bool modified_, hides_keys_;
  // Multiply bfloat16 pairs for the scores, and for weights with values; null where not used.
  const PairProduct *by_pairs_, *weights_by_pairs_;
  std::int64_t group_rows_;   // rows processed together
  bool entropies_known_;      // from the exponents
  std::int64_t panel_width_;  // of a key
  std::int64_t panels_, value_width_;
};

}  // namespace cogwheel::HWY_NAMESPACE
