"""
Moving objects in front of a fixed camera
=========================================

Separate cars from the street in a small synthetic video.
"""

from pathlib import Path

from discrepant import separate
from discrepant.core.plotting import image_panels
from discrepant.video.example_data import street

frames, truth = street(120)  # a real one: separate("video.mp4"), discrepant video
result = separate(frames)

print(result)
hits = (result.foreground & truth).sum()
print(f"precision of the foreground: {hits / result.foreground.sum():.1%}")
print(f"car pixels detected:         {hits / truth.sum():.1%}")

shown = 60
panels = {
    "frame": frames[shown],
    "background": result.background[shown],
    "foreground": result.foreground[shown],
}
picture = Path("separate_video.png")
image_panels(panels).savefig(picture)
print(f"picture: {picture}")
