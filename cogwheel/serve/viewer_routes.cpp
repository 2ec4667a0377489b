#include "cogwheel/serve/viewer_routes.h"

#include <nlohmann/json.hpp>

#include "cogwheel/serve/http_server.h"
#include "cogwheel/serve/viewer.h"
#include "cogwheel/serve/viewer_page.h"

namespace cogwheel::serve {

void add_viewer(HttpServer& server, Viewer& viewer, const ViewerPage& page) {
  const auto json = [](const nlohmann::ordered_json& answer) {
    return HttpReply{"application/json", answer.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
  };
  server.get("/", [&](std::string_view) { return HttpReply{"text/html; charset=utf-8", served_page(viewer, page)}; });
  server.post("/api/view",
              [&viewer, json](std::string_view body) { return json(viewer.view(parse_view_request(body))); });
  server.post("/api/map",
              [&viewer, json](std::string_view body) { return json(viewer.map(parse_view_request(body))); });
  server.post("/api/changes", [&viewer, json](std::string_view) { return json(viewer.changes_json()); });
}

}  // namespace cogwheel::serve
