#include "cogwheel/research/reproduce/reproduction_request.h"

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/json_fields.h"

namespace cogwheel::reproduce {

static constexpr auto fields(const ReproductionRequest&) {
  return std::tuple{
      runs::field("experiment", &ReproductionRequest::experiment), runs::field("scale", &ReproductionRequest::scale),
      runs::field("seeds", &ReproductionRequest::seeds),           runs::field("steps", &ReproductionRequest::steps),
      runs::field("minutes", &ReproductionRequest::minutes),       runs::field("text", &ReproductionRequest::text),
      runs::field("corpus", &ReproductionRequest::corpus),         runs::field("set", &ReproductionRequest::set),
      runs::unless_empty("fitted", &ReproductionRequest::fitted),
  };
}

std::string request_to_json(const ReproductionRequest& request) { return runs::write_json(request).dump(1) + "\n"; }

ReproductionRequest parse_request(std::string_view json, std::string_view what) {
  const runs::Json object = runs::Json::parse(json, nullptr, false);
  if (!object.is_object()) throw Error(expected_got(what, "what was asked for as JSON", "another file"));
  ReproductionRequest request;
  try {
    runs::read_json(object, "request", request);
  } catch (const Error& error) {
    throw Error(std::string(what) + ": " + error.what());
  }
  return request;
}

bool is_recorded(const ReproductionRequest& request, ReproductionRequest recorded) {
  recorded.fitted = request.fitted;
  return recorded == request;
}

}  // namespace cogwheel::reproduce
