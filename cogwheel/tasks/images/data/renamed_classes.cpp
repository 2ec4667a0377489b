#include "cogwheel/tasks/images/data/renamed_classes.h"

#include <utility>

namespace cogwheel::tasks::images {
namespace {

class RenamedClasses final : public ImageSource {
 public:
  RenamedClasses(std::shared_ptr<const ImageSource> source, std::vector<std::string> classes, runs::ClassMatch match)
      : source_(std::move(source)), match_(std::move(match)) {
    facts_ = source_->facts();
    facts_.class_names = std::move(classes);
    if (!match_.note.empty()) facts_.notes.push_back(facts_.name + ": " + match_.note);
  }

  std::int64_t images(ImagePart part) const override { return source_->images(part); }
  ImageExample image(ImagePart part, std::int64_t index) const override { return renamed(source_->image(part, index)); }
  ImageExample training_image(std::uint64_t seed, std::uint64_t place) const override {
    return renamed(source_->training_image(seed, place));
  }
  std::shared_ptr<const ImageSource> for_tuning() const override {
    return std::make_shared<RenamedClasses>(source_->for_tuning(), facts_.class_names, match_);
  }

 private:
  ImageExample renamed(ImageExample example) const {
    if (example.label >= 0) example.label = match_.places[static_cast<std::size_t>(example.label)];
    return example;
  }

  std::shared_ptr<const ImageSource> source_;
  runs::ClassMatch match_;
};

}  // namespace

std::shared_ptr<const ImageSource> renamed_classes(std::shared_ptr<const ImageSource> source,
                                                   std::vector<std::string> classes, runs::ClassMatch match) {
  return std::make_shared<RenamedClasses>(std::move(source), std::move(classes), std::move(match));
}

}  // namespace cogwheel::tasks::images
