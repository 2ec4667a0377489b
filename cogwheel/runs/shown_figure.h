// What a task has a page show of a model: data, which the page draws. So what was written to a file and read again is
// numbers, pictures and texts, and never markup.
//
// The content of a figure is a copyable struct, whose header declares, for its struct,
//
//   Figure drawn_figure(const Content&, const std::string& title);
//   nlohmann::ordered_json figure_json(const Content&);  with the name of its kind as "kind"
//
// and its folder a FigureKind that reads the latter, which tasks/figures.def names.
#pragma once
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cogwheel/pages/exhibits.h"

namespace cogwheel::runs {

class ShownFigure {
 public:
  template <class Content>
  ShownFigure(std::string title, Content content)
      : title_(std::move(title)), content_(std::make_shared<const Of<Content>>(std::move(content))) {}

  const std::string& title() const { return title_; }
  // The same content under another title.
  ShownFigure titled(std::string title) const {
    ShownFigure copy = *this;
    copy.title_ = std::move(title);
    return copy;
  }

 private:
  friend pages::Figure drawn_figure(const ShownFigure& figure);
  friend nlohmann::ordered_json figure_to_json(const ShownFigure& figure);

  struct Held {
    virtual ~Held() = default;
    virtual pages::Figure drawn(const std::string& title) const = 0;
    virtual nlohmann::ordered_json json() const = 0;
  };
  template <class Content>
  struct Of;

  std::string title_;
  std::shared_ptr<const Held> content_;
};

template <class Content>
struct ShownFigure::Of final : Held {
  explicit Of(Content given) : content(std::move(given)) {}
  pages::Figure drawn(const std::string& title) const override { return drawn_figure(content, title); }
  nlohmann::ordered_json json() const override { return figure_json(content); }
  Content content;
};

pages::Figure drawn_figure(const ShownFigure& figure);

nlohmann::ordered_json figure_to_json(const ShownFigure& figure);
// Throws Error that begins with `what` for what figure_to_json does not write, and nlohmann's exceptions.
ShownFigure figure_from_json(const nlohmann::ordered_json& json, std::string_view what);

struct FigureKind {
  std::string_view name;
  // Throws what figure_from_json throws.
  ShownFigure (*read)(const nlohmann::ordered_json& json, const std::string& title, std::string_view what);
};
// In the order of tasks/figures.def; tasks/tasks.cpp defines it.
std::span<const FigureKind> figure_kinds();

// Numbers that are not finite are null.
nlohmann::ordered_json numbers_as_json(const std::vector<float>& numbers);
std::vector<float> numbers_from_json(const nlohmann::ordered_json& json);
// Throws Error that begins with `what` where a figure has not as many `of`.
void expect_count(std::string_view what, std::string_view of, std::size_t expected, std::size_t got);

}  // namespace cogwheel::runs
