// Files of strokes, small and valid: of IAM-OnDB a line and its transcripts, of QuickDraw a drawing of either kind.
#pragma once
#include <string>

namespace cogwheel::tasks::handwriting {

inline const std::string line_xml = R"(<?xml version="1.0" encoding="ISO-8859-1"?>
<WhiteboardCaptureSession>
  <WhiteboardDescription><SensorLocation corner="top_left"/></WhiteboardDescription>
  <StrokeSet>
    <Stroke colour="black" start_time="769.05" end_time="769.64">
      <Point x="1073" y="1058" time="769.05"/>
      <Point x="1072" y="1085" time="769.07"/>
      <Point x="1072" y="1085" time="769.08"/>
    </Stroke>
    <Stroke colour="black" start_time="770.05" end_time="770.1"><Point x="1180.5" y="1050" time="770.05"/></Stroke>
  </StrokeSet>
</WhiteboardCaptureSession>
)";
inline const std::string transcript = "OCR:\n\nA MOVF\nto stop\n\nCSR:\n\nA MOVE to \r\n\nstop Mr. Gaitskell\n";
inline const std::string original = R"(<WhiteboardCaptureSession><Transcription><Text>A &lt;b&gt;</Text>
  <TextLine id="b02-000z-01" text="&quot;A &lt;b&gt;&quot;"><Word text="A"/></TextLine><TextLine text="end"/>
</Transcription></WhiteboardCaptureSession>)";
inline const std::string drawing = R"({"word":"cat","recognized":true,"drawing":[[[0,3,3],[1,1,5]],[[10],[20]]]})";
inline const std::string raw_drawing = R"({"word":"dög","drawing":[[[0.5,3.25],[1,1],[0,16]]]})";

}  // namespace cogwheel::tasks::handwriting
