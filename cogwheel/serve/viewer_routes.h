// The paths under which a server answers as a viewer.
#pragma once

namespace cogwheel::serve {

class HttpServer;
class Viewer;
struct ViewerPage;

// GET / is the page; POST api/view, api/map and api/changes are what it asks for. All must outlive the server.
void add_viewer(HttpServer& server, Viewer& viewer, const ViewerPage& page);

}  // namespace cogwheel::serve
